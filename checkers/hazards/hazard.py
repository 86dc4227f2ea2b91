"""A hazard: one way in which Kafka loses records, and all that the project knows about it."""

from typing import Final, Literal

import msgspec

from highwater.checkers.hazards.conditions import Condition, of_release_alone
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.cluster_facts import Number

Evidence = Literal["story", "replay", "run", "source"]

EVIDENCE: Final[dict[Evidence, str]] = {
    "story": "a story on real brokers",
    "replay": "a counterexample of the model on real brokers",
    "run": "random faults on real brokers",
    "source": "known from Kafka's source: the command plays what is nearest",
}
"""Each kind of evidence in words."""

_SILENT: Final = "An acknowledged record; only a reader that knows what was sent notices."


class Hazard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the catalogue of hazards.

    Attributes:
        id: the key of Kafka's issue or KIP, or a name that this project gave the hazard.
        aliases: other ids of the same hazard.
        title: what happens, in one sentence.
        loses: what is lost, and whether any client notices.
        topic: the internal topic of Kafka that the hazard is about; empty: all other topics.
        conditions: a topic has the hazard if all of these hold for the topic.
        schedule: the events that lead to the loss, described for a reader.
        cure: the fix: what makes the cluster safe.
        cost: the price of the fix.
        alter: the topic settings that are the fix where a topic has three replicas; empty: none.
        evidence: what ``command`` does on real brokers: it plays a story (scripted scenario),
            replays a counterexample of the model or runs random faults. With ``source`` it shows
            the same outcome by another schedule.
        command: the command that shows the hazard on a laptop.
        played_on: the release for ``command`` if the cluster's own is not in the catalogue.
        played_from: the oldest release on which the hazard can be played.
        counterexample: name of a file in docs/counterexamples, which has measured replays.
        campaign: the command that shows the hazard on the user's own cluster; empty if the hazard
            cannot be shown there (docs/external.md).
        source: the classes of Kafka's source on both sides of each bound of ``Releases``.
    """

    id: str
    aliases: tuple[str, ...] = ()
    title: str
    loses: str = _SILENT
    topic: str = ""
    conditions: tuple[Condition, ...]
    schedule: str
    cure: str
    cost: str
    alter: str = ""
    evidence: Evidence
    command: str
    counterexample: str = ""
    campaign: str = ""
    source: str = ""
    played_on: str = MODERN
    played_from: Number = ()

    @property
    def affected(self) -> str:
        """The affected releases and coordination in words, up to the catalogue's newest release."""
        parts = [part.says for part in self.conditions if of_release_alone(part)]
        return ", ".join(parts) or "every release"

    @property
    def other_conditions(self) -> tuple[str, ...]:
        """The conditions on settings, features and clients, in words."""
        return tuple(part.says for part in self.conditions if not of_release_alone(part))
