"""A hazard: one known way in which Kafka loses records, with its conditions, fix and evidence."""

from typing import Final, Literal

import msgspec

from highwater.checkers.hazards.conditions import END, Condition, of_release_alone, ranges_of
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.cluster_facts import Number, dotted

Evidence = Literal["story", "replay", "run", "test", "hand", "source"]

EVIDENCE: Final[dict[Evidence, str]] = {
    "story": "a story on real brokers",
    "replay": "a counterexample of the model on real brokers",
    "run": "random faults on real brokers",
    "test": "a test on real brokers",
    "hand": "shown on real brokers by hand; the command executes the nearest schedule",
    "source": "known from Kafka's source; the command executes the nearest schedule",
}
"""Each kind of evidence in words."""

_SILENT: Final = "An acknowledged record. Only a reader that knows the sent records notices."


class Hazard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the catalogue of hazards.

    Attributes:
        id: the key of Kafka's issue or KIP, or a name of this project.
        aliases: other ids of the same hazard.
        title: the event, in one sentence.
        found_by: the source of the first description: Highwater, a report, or Kafka's issue.
        year: the year of the first description; 0 if unknown.
        findings: the pages in docs/findings about the hazard, without ``.md``, the main page first.
        loses: the loss, and whether any client notices it.
        topic: the internal topic of Kafka that has the hazard; empty for all other topics.
        conditions: a topic has the hazard if all these conditions hold.
        schedule: the events that lead to the loss, in words.
        cure: the fix that makes the cluster safe.
        cost: the price of the fix.
        alter: the topic settings that fix a topic with three replicas; empty without such a fix.
        evidence: the kind of evidence by ``command`` on real brokers: a key of ``EVIDENCE``.
        command: the command that shows the hazard on a laptop.
        played_on: the release for ``command`` if the cluster's own is not in the catalogue.
        played_from: the oldest release on which the command can show the hazard.
        counterexample: the name of a file in docs/counterexamples.
        campaign: the command that shows the hazard on the user's own cluster; empty if the hazard
            cannot be shown there (docs/external.md).
        source: the classes of Kafka that changed at each bound of ``Releases``.
    """

    id: str
    aliases: tuple[str, ...] = ()
    title: str
    found_by: str
    year: int = 0
    findings: tuple[str, ...] = ()
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
    def introduced(self) -> tuple[str, ...]:
        """The first affected releases of brokers or Java's clients; empty if all are affected."""
        firsts = {span.first for part in self.conditions for span in ranges_of(part)}
        return tuple(dotted(first) for first in sorted(firsts) if first > (0,))

    @property
    def fixed(self) -> tuple[str, ...]:
        """The first releases without the hazard; empty if no known release is fixed."""
        ends = {span.fixed for part in self.conditions for span in ranges_of(part)}
        return tuple(dotted(end) for end in sorted(filter(None, ends)))

    @property
    def end(self) -> Number:
        """The first release after all affected releases; ``END`` if the newest has the hazard."""
        spans = filter(None, map(ranges_of, self.conditions))
        return min((max(span.fixed or END for span in ranges) for ranges in spans), default=END)

    @property
    def discovery(self) -> str:
        """The first description of the hazard, and its year."""
        return f"{self.found_by}, {self.year}" if self.year else self.found_by

    @property
    def other_conditions(self) -> tuple[str, ...]:
        """The conditions on settings, features and clients, in words."""
        return tuple(part.says for part in self.conditions if not of_release_alone(part))
