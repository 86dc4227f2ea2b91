"""The policy: the guarantee of a run's settings, and the anomalies that break it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers import catalogue
from highwater.checkers.core.anomaly_kinds import UNREACHED_INPUT, UNSEEN
from highwater.checkers.core.promises import if_controllers_keep_disks
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.verdict import ACKNOWLEDGED

Word = Literal["valid", "invalid", "unknown"]

_UNDECIDED: Final = frozenset((UNSEEN, UNREACHED_INPUT))
"""Kinds of anomaly that leave a record's outcome open, because no reader reached its offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The guarantee of a run's settings.

    Attributes:
        says: the guarantee in one sentence.
        breaking: the kinds of anomaly that break the guarantee.
        acks: the producers' acks. With acks=0 no record is acknowledged.
    """

    says: str
    breaking: frozenset[str]
    acks: str = "all"


def promised(plan: Plan, *, faults: int) -> Promise:
    """Return the guarantee by which a run is judged.

    Args:
        plan: the run's settings.
        faults: the number of injected faults.
    """
    kinds = catalogue.all_kinds().values()
    breaking = frozenset(kind.name for kind in kinds if kind.breaks(plan, faults))
    says = _readable(plan) if plan.read_only else _sentence(plan)
    return Promise(says=says, breaking=breaking, acks=plan.workload.acks)


def decide(
    promise: Promise,
    counts: Mapping[str, int],
    *,
    unjudged: Sequence[str],
    untested: Sequence[str] = (),
    exceeded: Sequence[str] = (),
) -> tuple[Word, tuple[str, ...]]:
    """Return the verdict and its reasons.

    The verdict is ``unknown`` if some evidence could not be judged, else ``invalid`` if a guarantee
    was broken. Otherwise it is ``unknown`` if no reader reached some record's offset, or if the run
    tested no guarantee; else ``valid``.

    Args:
        promise: from ``promised``.
        counts: the number of anomalies of each kind, without anomalies that have a cause.
        unjudged: the reasons why the run could not be judged completely.
        untested: the reasons why a completely judged run tested no guarantee.
        exceeded: one sentence for each of the user's limits that an outage exceeded.
    """
    kinds = sorted((kind for kind in counts if counts[kind]), key=_rank)
    broken = [
        phrase(kind, counts[kind], promise.acks) for kind in kinds if kind in promise.breaking
    ]
    others = [
        f"{phrase(kind, counts[kind], promise.acks)} The run's guarantee allows this."
        for kind in kinds
        if kind not in promise.breaking and kind not in _UNDECIDED
    ]
    unseen = [phrase(kind, counts[kind], promise.acks) for kind in kinds if kind in _UNDECIDED]
    broken += exceeded
    reasons = (*unjudged, *broken, *unseen, *untested, *others)
    if unjudged:
        return "unknown", reasons
    if broken:
        return "invalid", reasons
    return ("unknown" if unseen or untested else "valid"), reasons


def phrase(kind: str, count: int, acks: str = "all") -> str:
    """Return a sentence with the number of anomalies of a kind, and their description."""
    entry = catalogue.kind(kind)
    words = entry.singular if count == 1 else entry.plural
    if acks in ACKNOWLEDGED:
        words = words.removeprefix("acknowledged ")
    return f"{count:,} {words}."


def _rank(name: str) -> tuple[int, str]:
    kinds = list(catalogue.all_kinds())
    return (kinds.index(name) if name in kinds else len(kinds)), name


def elections(plan: Plan) -> str:
    """Return "clean elections" or "unclean elections", as the topic's configuration allows."""
    return "unclean elections" if plan.topic.unclean_leader_election else "clean elections"


def _sentence(plan: Plan) -> str:
    least = plan.topic.min_insync_replicas
    match plan.workload.acks, plan.topic.unclean_leader_election:
        case "0", _:
            text = (
                "With acks=0 there is no promise to keep a record, because no broker "
                "acknowledges records"
            )
        case "1", _:
            text = "With acks=1 an acknowledged record is kept as long as no leader fails"
        case _, True:
            text = (
                "With acks=all and unclean elections an acknowledged record is kept only as long as"
                " the leader is elected from the in-sync replicas"
            )
        case _:
            text = (
                "With acks=all and clean elections an acknowledged record is never lost while the"
                f" disk of one in-sync replica survives; min.insync.replicas={least} means that at"
                f" least {_replicas(least)} held it when it was acknowledged"
            )
    if plan.workload.idempotence:
        text += "; the idempotent producer writes it once, in the order it was sent"
    if plan.workload.transactions:
        text += (
            "; every transaction ends, and read_committed readers get all records of committed"
            " transactions, and no record of others"
        )
    if plan.workload.members or plan.workload.transform or plan.topic.added:
        text += "; a group of readers gets every record at least once"
    if if_controllers_keep_disks(plan, 0):
        text += "; no decision of a controller is lost"
    if limits := [f"{option} {most_s:g}s" for option, most_s in plan.availability_limits.values()]:
        text += f"; outages are within {' and '.join(limits)}"
    text = f"{text}; replicas never disagree."
    if plan.program is None:
        return text
    guarantee = plan.program.guarantee.replace("-", " ") + ", in order" * plan.program.ordered
    action = "writes each record" if plan.without_input else "processes each input"
    return f"The program says that it {action} {guarantee}. {text}"


def _readable(plan: Plan) -> str:
    while_kept = (
        "as long as the leader is elected from the in-sync replicas"
        if plan.topic.unclean_leader_election
        else "while the disk of one in-sync replica survives"
    )
    text = (
        f"With {elections(plan)} a record that a reader received stays at its offset, unchanged, "
        f"{while_kept}, until retention or a deletion removes it; read_committed readers all get "
        "the same records"
    )
    if limits := [f"{option} {most_s:g}s" for option, most_s in plan.availability_limits.values()]:
        text += f"; outages are within {' and '.join(limits)}"
    return f"{text}."


def _replicas(count: int) -> str:
    return "one replica, the leader," if count == 1 else f"{count} replicas"
