"""The verdict: anomalies with their witnesses, a ledger, and one of three words."""

from collections.abc import Mapping
from typing import Final, Literal, Self

import msgspec

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.plan import SCHEMA_VERSION

VALID: Literal["valid"] = "valid"
INVALID: Literal["invalid"] = "invalid"
UNKNOWN: Literal["unknown"] = "unknown"
LOSSY: Final = "valid, with losses"
"""The word for a valid run that lost records: nothing promised to keep them."""


Account = Literal["whole", "begun", "none"]
"""How far a run's records can be accounted for: to the final read; as far as they were sent when
the run was cut short; or not at all, because its history cannot be read."""


def in_words(verdict: str, lost: int) -> str:
    """Return a verdict's word for a person: ``LOSSY`` for a valid run that lost records."""
    return LOSSY if verdict == VALID and lost else verdict


class UnusedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of a run that is no evidence: it was left out of everything that is judged.

    ``why`` is the end of a sentence that begins with the path.
    """

    path: str
    why: str

    @property
    def says(self) -> str:
        """The whole sentence."""
        return f"{self.path} {self.why.rstrip('.')}."


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence. An anomaly's witnesses, in order of time, are its story.

    Attributes:
        time_ns: nanoseconds since the run's start; None for evidence of the disks at the end.
        who: ``producer-0``, ``broker 2``, ``reader``, ``nemesis``, ``controller``.
        what: acknowledged, appended, held, killed, elected, truncated, replaced, read, disk …
        leader_epoch: the epoch in which it happened, where one is known.
        broker: the broker that acted or was acted upon, if there is one.
        says: the evidence as one sentence.
        source: the file inside the run that shows it, such as ``events/replicas``.
    """

    who: str
    what: str
    says: str
    source: str
    time_ns: int | None = None
    leader_epoch: int | None = None
    broker: int | None = None


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One record about which something is wrong.

    Attributes:
        kind: lost-write, divergence, poll-skip …; docs/checkers.md has them all.
        partition: -1 where it is of none, as a decision about a topic.
        offset: where it was acknowledged or stands; None when no client received it.
        value: the record's id; None when it cannot be read.
        sentence: the finding, for a person.
        breaks: whether the policy says that this breaks a promise.
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
"""The word for a successful send, by ``acks``: with 0 no broker acknowledges."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger: every record, by what became of it.

    sent = acknowledged + failed + unknown; acknowledged = read + lost + unseen + replaced. ``read``
    counts acknowledged records that the final read returned, and ``replaced`` those that compaction
    may have removed from a compacted topic; all are counts of records.
    """

    sent: int
    acknowledged: int
    failed: int
    unknown: int
    read: int
    lost: int
    unseen: int
    replaced: int = 0

    def errors(self) -> list[str]:
        """Return what does not add up; empty when the books balance."""
        wrong = []
        if self.sent != self.acknowledged + self.failed + self.unknown:
            wrong.append(
                f"sent {self.sent} is not acknowledged {self.acknowledged} + failed {self.failed}"
                f" + unknown {self.unknown}"
            )
        if self.acknowledged != self.read + self.lost + self.unseen + self.replaced:
            wrong.append(
                f"acknowledged {self.acknowledged} is not read {self.read} + lost {self.lost}"
                f" + unseen {self.unseen} + replaced {self.replaced}"
            )
        return wrong


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's whole answer about one run, saved as ``analysis/verdict.json``.

    Attributes:
        verdict: valid, invalid, or unknown (it could not be judged; never a pass).
        reasons: why, a sentence each; for ``unknown`` what was missing.
        promise: what the run's settings promised, a sentence.
        headline: the finding in one sentence with denominators.
        happened: what was done to the cluster, as recorded; empty where that is not known.
        counts: anomalies by kind, exact, whatever was cut from ``anomalies``.
        following: those that only follow from another one, by kind; they are not in ``counts``,
            and only ``anomalies.parquet`` has them, with their ``cause``.
        anomalies: the first of each kind, breaking ones first; all are in ``anomalies.parquet``.
        checkers: checker name to ``held``, ``found N``, ``crashed: …``, ``not judged`` where
            nothing was found in a run of which something is missing, or ``not judged: …`` where
            the run has nothing for it to judge, and why.
        cut: the phase in which the run was cut short; empty when it ended.
        unread: files that are no evidence, so that nothing was concluded from them.
        account: how far the ledger's numbers mean anything.
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

    @property
    def complete(self) -> bool:
        """True if the run ended and all of its files are as they were recorded."""
        return not self.cut and not self.unread

    @property
    def word(self) -> str:
        """The verdict for a person: a valid run that lost records differs from one that did not."""
        return in_words(self.verdict, self.ledger.lost)

    @property
    def sums(self) -> str:
        """The ledger as a sentence, as far as it is known; empty when nothing is."""
        if self.account == "none":
            return ""
        book, acknowledged = self.ledger, ACKNOWLEDGED.get(self.acks, "acknowledged")
        sent = (
            f"sent {book.sent:,} = {acknowledged} {book.acknowledged:,} + failed {book.failed:,}"
            f" + unknown {book.unknown:,}"
        )
        if self.account == "begun":
            return f"recorded up to the cut: {sent}"
        lost = f"lost {book.lost:,} + unseen {book.unseen:,}"
        lost += f" + replaced {book.replaced:,}" if book.replaced else ""
        return f"{sent}; {acknowledged} = read {book.read:,} + {lost}"

    def to_json(self) -> bytes:
        """Return the verdict as ``verdict.json`` holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a verdict back."""
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
            if schema == SCHEMA_VERSION:
                return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"verdict.json is broken: {error}", hint="Judge the run again: highwater check RUN"
            ) from error
        raise StoreError(
            f"verdict.json has schema {schema}; this is schema {SCHEMA_VERSION}",
            hint="Read it with the Highwater that judged it, or judge it again: highwater check",
        )

    def summary(self, report: str | None) -> dict[str, object]:
        """Return the one object that ``run --json`` and ``check --json`` print.

        A number that could not be counted is null.
        """
        ledger: dict[str, int | None] = msgspec.structs.asdict(self.ledger)
        if self.account != "whole":
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
            "divergent": counted("divergence"),
            "duplicate": counted("duplicate"),
            "anomalies": [msgspec.to_builtins(anomaly) for anomaly in self.anomalies],
            "report": report,
        }


class _SchemaOnly(msgspec.Struct):
    """Asked first: of another schema the rest may mean something else."""

    schema: int = SCHEMA_VERSION
