"""The verdict (valid, invalid or unknown), with anomalies, evidence and counts of records."""

from collections.abc import Mapping
from typing import Final, Literal, Self

import msgspec

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.availability import Availability
from highwater.harness.runs.plan import SCHEMA_VERSION

VALID: Literal["valid"] = "valid"
INVALID: Literal["invalid"] = "invalid"
UNKNOWN: Literal["unknown"] = "unknown"
LOSSY: Final = "valid, with losses"
"""The verdict's text for a valid run that lost records which its settings did not protect."""


Account = Literal["whole", "begun", "received", "none"]
"""The records of a run that the ledger (``Ledger``) counts. ``whole``: all up to the final read.
``begun``: only records sent before the run was interrupted. ``received``: the run only reads, and
the ledger counts the records that its readers received. ``none``: the history cannot be read."""


def in_words(verdict: str, lost: int) -> str:
    """Return the verdict's text for reports: ``LOSSY`` if a valid run lost records."""
    return LOSSY if verdict == VALID and lost else verdict


class UnusedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory of a run that the judge could not use as evidence.

    ``why`` continues a sentence that begins with the path: ``is missing``.
    """

    path: str
    why: str

    @property
    def says(self) -> str:
        """The path and the reason as one sentence."""
        return f"{self.path} {self.why.rstrip('.')}."


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence. An anomaly's evidence, in order of time, explains the anomaly.

    Attributes:
        time_ns: nanoseconds since the run's start; None for evidence from the disks at the end.
        who: the actor: ``producer-0``, ``broker 2``, ``reader``, ``nemesis``, ``controller``.
        what: the event: acknowledged, appended, held, killed, elected, truncated, replaced, read,
            disk …
        leader_epoch: the leader epoch of the event, if known.
        broker: the broker of the event, if any.
        says: the evidence as one sentence.
        source: the run's file that has the evidence, such as ``events/replicas``.
    """

    who: str
    what: str
    says: str
    source: str
    time_ns: int | None = None
    leader_epoch: int | None = None
    broker: int | None = None


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about a record, a partition or a topic.

    Attributes:
        kind: lost-write, divergence, poll-skip …; docs/checkers.md lists all kinds.
        partition: -1 if the finding is about no partition, such as a decision about a topic.
        offset: the record's acknowledged or actual offset; None if no client received an offset.
        value: the record's id; None if the id cannot be read.
        sentence: the finding as a sentence.
        breaks: whether the anomaly breaks a guarantee, according to the policy.
    """

    kind: str
    topic: str
    partition: int
    offset: int | None
    value: str | None
    sentence: str
    breaks: bool
    witnesses: tuple[Witness, ...] = ()


ACKNOWLEDGED: Final[Mapping[str, str]] = {"0": "left the client"}
"""Text for a successful send, by ``acks``. With acks=0, no broker acknowledges."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger: the number of records with each outcome.

    sent = acknowledged + failed + unknown; acknowledged = read + lost + unseen + replaced.
    ``read``: the final read returned the record. ``unseen``: the final read may not have reached
    the record's offset. ``replaced``: compaction, or an administrator, may have removed the record.

    If the run only reads, ``received`` is the number of records that its readers received, and
    received = read + lost + unseen + replaced. ``replaced``: retention or a deletion removed the
    record.
    """

    sent: int
    acknowledged: int
    failed: int
    unknown: int
    read: int
    lost: int
    unseen: int
    replaced: int = 0
    received: int = 0

    def errors(self) -> list[str]:
        """Return a sentence for each sum that is wrong. Empty if all sums are correct."""
        wrong = []
        if self.sent != self.acknowledged + self.failed + self.unknown:
            wrong.append(
                f"sent {self.sent} is not acknowledged {self.acknowledged} + failed {self.failed}"
                f" + unknown {self.unknown}"
            )
        total = self.acknowledged + self.received
        if total != self.read + self.lost + self.unseen + self.replaced:
            wrong.append(
                f"{'received' if self.received else 'acknowledged'} {total} differs from read"
                f" {self.read} + lost {self.lost}"
                f" + unseen {self.unseen} + replaced {self.replaced}"
            )
        return wrong


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's complete result for one run, saved as ``analysis/verdict.json``.

    Attributes:
        verdict: valid, invalid, or unknown (the run could not be judged; never a pass).
        reasons: the reasons as sentences; for ``unknown``, the missing parts.
        promise: the guarantee of the run's settings, as a sentence.
        headline: the finding in one sentence, with total numbers.
        happened: the recorded faults in the cluster; empty if unknown.
        counts: kind to the exact number of anomalies, even if ``anomalies`` does not have all.
        following: kind to the number of anomalies that only follow from another anomaly. They are
            not in ``counts`` or ``anomalies``, but in ``anomalies.parquet``, with their ``cause``.
        anomalies: the first anomalies of each kind, those that break a guarantee first;
            ``anomalies.parquet`` has all.
        checkers: checker name to its result. ``held``: no anomaly. ``found N``: N anomalies.
            ``crashed: …``: an error in the checker. ``not judged``: no anomaly was found, but parts
            of the run are missing. ``not judged: …``: the run has nothing for this checker to
            judge.
        cut: the phase in which the run was interrupted; empty if the run ended.
        unread: files that the judge could not use as evidence.
        account: the part of the run that the ledger counts.
        availability: None if it was not measured, as in older verdicts.
    """

    schema: int = SCHEMA_VERSION
    run: str
    kafka: str
    acks: str
    verdict: Literal["valid", "invalid", "unknown"]
    reasons: tuple[str, ...]
    promise: str
    headline: str
    happened: str = ""
    ledger: Ledger
    counts: dict[str, int]
    anomalies: tuple[Anomaly, ...]
    checkers: dict[str, str]
    following: dict[str, int] = {}
    cut: str = ""
    unread: tuple[UnusedFile, ...] = ()
    account: Account = "whole"
    availability: Availability | None = None

    @property
    def complete(self) -> bool:
        """True if the run ended and all its files are unchanged since they were recorded."""
        return not self.cut and not self.unread

    @property
    def word(self) -> str:
        """The verdict for reports: ``valid``, ``invalid``, ``unknown``, ``valid, with losses``."""
        return in_words(self.verdict, self.ledger.lost)

    @property
    def sums(self) -> str:
        """The ledger as a sentence, as far as it is known; empty if no record was counted."""
        if self.account == "none":
            return ""
        if self.account == "received":
            return (
                f"received {self.ledger.received:,} = still there {self.ledger.read:,} + gone"
                f" {self.ledger.lost:,} + expired {self.ledger.replaced:,} + not reached"
                f" {self.ledger.unseen:,}"
            )
        book, acknowledged = self.ledger, ACKNOWLEDGED.get(self.acks, "acknowledged")
        sent = (
            f"sent {book.sent:,} = {acknowledged} {book.acknowledged:,} + failed {book.failed:,}"
            f" + unknown {book.unknown:,}"
        )
        if self.account == "begun":
            return f"counted until the run was interrupted: {sent}"
        lost = f"lost {book.lost:,} + unseen {book.unseen:,}"
        lost += f" + replaced {book.replaced:,}" if book.replaced else ""
        return f"{sent}; {acknowledged} = read {book.read:,} + {lost}"

    def to_json(self) -> bytes:
        """Return the verdict in the form of ``verdict.json``."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a verdict from ``verdict.json``; raise ``StoreError`` if that is not possible."""
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
            if schema == SCHEMA_VERSION:
                return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"verdict.json is broken: {error}", hint="Judge the run again: highwater check RUN"
            ) from error
        raise StoreError(
            f"verdict.json has schema {schema}; this Highwater reads schema {SCHEMA_VERSION}",
            hint="Use the release that judged the run, or judge again: highwater check RUN",
        )

    def summary(self, report: str | None) -> dict[str, object]:
        """Return the object that ``run --json`` and ``check --json`` print; null if unknown."""
        ledger: dict[str, int | None] = msgspec.structs.asdict(self.ledger)
        if self.account == "received":
            ledger |= dict.fromkeys(("sent", "acknowledged", "failed", "unknown"))
        else:
            ledger["received"] = None
        if self.account in {"begun", "none"}:
            ledger |= dict.fromkeys(("read", "lost", "unseen", "replaced"))
        if self.account == "none":
            ledger = dict.fromkeys(ledger)

        def counted(kind: str) -> int | None:
            return self.counts.get(kind, 0) or (0 if self.complete else None)

        return {
            "run": self.run,
            "kafka": self.kafka,
            "acks": self.acks,
            "verdict": self.verdict,
            "word": self.word,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "happened": self.happened,
            **ledger,
            "availability": msgspec.to_builtins(self.availability),
            "divergent": counted("divergence"),
            "duplicate": counted("duplicate"),
            "anomalies": [msgspec.to_builtins(anomaly) for anomaly in self.anomalies],
            "report": report,
        }


class _SchemaOnly(msgspec.Struct):
    """Only the schema version. It is read first, because another version may have other fields."""

    schema: int = SCHEMA_VERSION
