"""A hazard: one way in which Kafka loses records, and all that is known about it."""

from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers.hazards.conditions import Condition, of_release_alone
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.cluster_facts import Number

Evidence = Literal["story", "replay", "run", "source"]

EVIDENCE: Final[dict[Evidence, str]] = {
    "story": "a story on real brokers",
    "replay": "a counterexample of the model on real brokers",
    "run": "random faults on real brokers",
    "source": "what is nearest to it: not played itself, by Kafka's source",
}
"""The evidence in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One hazard.

    Attributes:
        id: Kafka's issue or KIP, or a name of ours.
        aliases: other ids of the same.
        title: what happens, in one sentence.
        loses: what is lost, and who notices.
        topic: one of Kafka's own that it is about; any other topic if empty.
        conditions: all have to hold, for the topic.
        schedule: how it comes about, for a person.
        cure: the fix: what makes it safe.
        cost: the price of the fix.
        evidence: what the command below does: it plays a story, replays a counterexample of
            the model or runs random faults, on real brokers; of ``source``, it shows the same end
            by another schedule.
        command: what shows it on a laptop.
        played_on: the release of the command, where the cluster's own is not in the catalogue.
        played_from: the oldest release on which it can be played.
        counterexample: name of a file in docs/counterexamples, which has measured replays.
        campaign: the command that shows it on a cluster of one's own; empty where it cannot be
            shown there (docs/external.md).
        source: the classes of Kafka's source on both sides of each bound of its releases.
    """

    id: str
    aliases: tuple[str, ...] = ()
    title: str
    loses: str
    topic: str = ""
    conditions: tuple[Condition, ...]
    schedule: str
    cure: str
    cost: str
    evidence: Evidence
    command: str
    counterexample: str = ""
    campaign: str = ""
    source: str = ""
    played_on: str = MODERN
    played_from: Number = ()

    @property
    def affected(self) -> str:
        """The releases, and the coordination, in words; the newest is the catalogue's newest."""
        parts = [part.says for part in self.conditions if of_release_alone(part)]
        return ", ".join(parts) or "every release"

    @property
    def other_conditions(self) -> tuple[str, ...]:
        """Conditions of settings, features and clients, in words."""
        return tuple(part.says for part in self.conditions if not of_release_alone(part))
