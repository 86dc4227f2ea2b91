"""Every kind of anomaly: what it is called in a sentence, how bad it is, and what it breaks.

Names and definitions of the clients' kinds are those of Jepsen's Kafka workload, but for
``vanished`` and ``phantom``. Whether a run was promised what a kind breaks is for
``checkers.policy`` to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from harness.plan import Plan

BELOW: Final = "below its HW "
ABOVE: Final = "above its HW "
"""How the note of a divergent copy begins; the HW that its broker had last written down follows."""


class Severity(StrEnum):
    """How bad an anomaly is where it breaks a promise."""

    CRITICAL = "critical"  # data is gone, or is not what it was
    SERIOUS = "serious"  # data is there, and clients that do everything right are misled
    MINOR = "minor"  # order is lost, which many clients do not need
    EXPECTED = "expected"  # Kafka promises nothing against it
    UNDECIDED = "undecided"  # nobody can say


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of anomaly.

    Attributes:
        one: what one of them is, the end of a sentence that begins with 1.
        many: what several are.
        promise: what it breaks, and who promised it.
        breaks: whether a run of a plan was promised that; None: ``checkers.policy`` knows. A kind
            of another package says so itself, and is none that the reference model has rules of.
        says: what one anomaly is, a sentence, of its row in columns of ``registry.ANOMALY``; None:
            ``checkers.lineage`` knows.
    """

    one: str
    many: str
    severity: Severity
    promise: str
    breaks: Callable[[Plan], bool] | None = None
    says: Callable[[dict[str, Any]], str] | None = None


_DURABLE: Final = "durability: acks=all and clean elections (ProducerConfig acks, KIP-106)"
_ORDERED: Final = "order: a consumer gets a partition's records in the order of its log"
_SENT_IN_ORDER: Final = "order: an idempotent producer's records keep theirs (KIP-98)"
_ISOLATED: Final = "isolation: read_committed sees committed transactions alone (KIP-98)"
_AGREED: Final = "agreement: an offset is one record's, whoever is asked (KIP-101)"
_NONE: Final = "none: transactions of several producers share a log (KIP-98)"
_CRITICAL, _SERIOUS, _MINOR = Severity.CRITICAL, Severity.SERIOUS, Severity.MINOR

KINDS: Final[dict[str, Kind]] = {
    "lost-write": Kind(
        "acknowledged record was lost", "acknowledged records were lost", _CRITICAL, _DURABLE
    ),
    "vanished": Kind(
        "record was read and is gone", "records were read and are gone", _CRITICAL, _DURABLE
    ),
    "unseen": Kind(
        "acknowledged record is out of sight",
        "acknowledged records are out of sight",
        Severity.UNDECIDED,
        _DURABLE,
    ),
    "divergence": Kind(
        "offset differs between replicas", "offsets differ between replicas", _CRITICAL, _AGREED
    ),
    "inconsistent-offsets": Kind(
        "offset is several records'", "offsets are several records'", _CRITICAL, _AGREED
    ),
    "duplicate": Kind(
        "record stands in the log twice",
        "records stand in the log twice",
        _SERIOUS,
        "exactly once: an idempotent producer writes a record once (KIP-98)",
    ),
    "phantom": Kind(
        "record was read and never sent",
        "records were read and never sent",
        _CRITICAL,
        "integrity: what is read was sent",
    ),
    "G1a": Kind("aborted record was read", "aborted records were read", _SERIOUS, _ISOLATED),
    "precommitted-read": Kind(
        "record was read before it was committed",
        "records were read before they were committed",
        _SERIOUS,
        _ISOLATED,
    ),
    "poll-skip": Kind(
        "reader skipped records between polls",
        "times a reader skipped records between polls",
        _SERIOUS,
        _ORDERED,
    ),
    "int-poll-skip": Kind(
        "poll left out records", "times a poll left out records", _SERIOUS, _ORDERED
    ),
    "nonmonotonic-poll": Kind(
        "reader went back between polls",
        "times a reader went back between polls",
        _MINOR,
        _ORDERED,
    ),
    "int-nonmonotonic-poll": Kind(
        "poll went back", "times a poll went back", _SERIOUS, _ORDERED
    ),
    "nonmonotonic-send": Kind(
        "record stands before one that was sent earlier",
        "records stand before ones that were sent earlier",
        _MINOR,
        _SENT_IN_ORDER,
    ),
    "int-nonmonotonic-send": Kind(
        "record stands before one that its transaction sent earlier",
        "records stand before ones that their transaction sent earlier",
        _MINOR,
        _SENT_IN_ORDER,
    ),
    "int-send-skip": Kind(
        "transaction has others' records among its own",
        "times a transaction has others' records among its own",
        Severity.EXPECTED,
        _NONE,
    ),
    "G0": Kind(
        "cycle of transactions that wrote before one another",
        "cycles of transactions that wrote before one another",
        Severity.EXPECTED,
        _NONE,
    ),
    "G1c": Kind(
        "cycle of transactions that read from one another",
        "cycles of transactions that read from one another",
        _SERIOUS,
        _ISOLATED,
    ),
    "corrupt": Kind(
        "stretch of a log is corrupt",
        "stretches of logs are corrupt",
        _CRITICAL,
        "integrity: every batch on a disk passes its checksum",
    ),
    "missing": Kind(
        "in-sync replica lacks committed records",
        "in-sync replicas lack committed records",
        _CRITICAL,
        "replication: an in-sync replica has all that was committed (KIP-106, KIP-966)",
    ),
    "repeated-sequence": Kind(
        "sequence number stands in a log twice",
        "sequence numbers stand in a log twice",
        _SERIOUS,
        "exactly once: a broker drops what it has appended before (KIP-98)",
    ),
    "epochs": Kind(
        "replica's epoch list contradicts its log",
        "replicas' epoch lists contradict their logs",
        Severity.EXPECTED,
        "none: since 3.7 a broker writes its list behind its log (KAFKA-15046)",
    ),
    "checkpoint": Kind(
        "checkpoint lies beyond its log's end",
        "checkpoints lie beyond their logs' ends",
        Severity.EXPECTED,
        "none: only what was flushed outlives a machine",
    ),
}  # fmt: skip
"""In the order in which a verdict speaks of them. Of G0 and G1c there are also ``-process`` and
``-realtime``, where the cycle closes only through a process's own order, or through time."""


ABSENCES: Final = frozenset({"phantom", "unseen"})
"""Kinds that rest on what is *not* in a history. Of a run that was cut short the last rows were
never written down, so it shows none of these."""


def kind(name: str) -> Kind:
    """The kind of that name; a form of a cycle is that cycle's.

    Whoever has a verdict may not have the package whose checker it is of.
    """
    if found := KINDS.get(name) or KINDS.get(name.partition("-")[0]):
        return found
    promise = "not known here: the package that has its checker is not installed"
    return Kind(f"anomaly {name}", f"anomalies {name}", Severity.UNDECIDED, promise)


def add(name: str, found: Kind) -> None:
    """Add a kind of another package.

    Raises:
        ValueError: there is one of that name, or it does not say what it breaks and is.
    """
    if name in KINDS:
        raise ValueError(f"two kinds are called {name}")
    if found.breaks is None or found.says is None:
        raise ValueError(f"the kind {name} has to have breaks and says")
    KINDS[name] = found
