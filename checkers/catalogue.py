"""All checkers, in the order in which reports and verdicts list their results.

To add a checker, import it and put it into ``CHECKERS``. If a checker finds several kinds of
anomaly in one pass, its decorator lists the kinds in order.
"""

from collections.abc import Iterable
from typing import Final

from highwater.checkers.anomalies.client_checkers import clients, operations, records, skips
from highwater.checkers.anomalies.vanished_reads import vanished_reads
from highwater.checkers.compaction.last_values import resurrected_values
from highwater.checkers.compaction.replica_values import stale_replica
from highwater.checkers.coordinators.contradictions import coordinator_contradiction
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import Checker
from highwater.checkers.core.jepsen_kinds import FOREIGN
from highwater.checkers.core.promises import never
from highwater.checkers.disks.coordinator_topics import coordinator_divergence
from highwater.checkers.disks.corrupt import corrupt
from highwater.checkers.disks.divergence import divergence
from highwater.checkers.disks.replica_logs import missing, repeated_sequence
from highwater.checkers.disks.time_lookups import wrong_lookup
from highwater.checkers.groups.commits import commits
from highwater.checkers.groups.ownership import two_owners
from highwater.checkers.groups.share_groups import share_groups
from highwater.checkers.groups.undelivered import undelivered_records
from highwater.checkers.metadata.leader_epochs import shared_epoch
from highwater.checkers.metadata.lost_decisions import lost_decision
from highwater.checkers.metadata.metadata_divergence import metadata_divergence
from highwater.checkers.programs.acknowledged import acknowledged
from highwater.checkers.programs.inputs import inputs
from highwater.checkers.programs.output_order import output_order
from highwater.checkers.programs.transactions import program_in_transactions
from highwater.checkers.tiers.remote_divergence import remote_divergence
from highwater.checkers.transactions.atomicity import torn_transactions
from highwater.checkers.transactions.exactly_once import loops
from highwater.checkers.transactions.hanging_transactions import hanging_transaction
from highwater.harness.base import extensions
from highwater.harness.base.errors import HarnessError

CHECKERS: Final = (
    records,
    vanished_reads,
    divergence,
    resurrected_values,
    stale_replica,
    remote_divergence,
    coordinator_divergence,
    corrupt,
    missing,
    repeated_sequence,
    wrong_lookup,
    hanging_transaction,
    torn_transactions,
    shared_epoch,
    metadata_divergence,
    lost_decision,
    skips,
    clients,
    undelivered_records,
    loops,
    two_owners,
    commits,
    coordinator_contradiction,
    share_groups,
    inputs,
    output_order,
    acknowledged,
    program_in_transactions,
    operations,
)
"""Highwater's own checkers, in order."""


def all_checkers() -> tuple[Checker, ...]:
    """Return Highwater's own checkers, and then the checkers of other packages.

    Raises:
        HarnessError: a package with checkers cannot be loaded, its entry point names no checker, or
            two checkers find a kind of the same name.
    """
    checkers = list(CHECKERS)
    for package, extension in extensions.load(extensions.CHECKERS):
        if not isinstance(extension, Checker):
            raise HarnessError(
                f"The entry point {extensions.CHECKERS} of {package} names a "
                f"{type(extension).__name__}, not a checker",
                hint="The entry point must name a function that @checker decorates.",
            )
        if twice := _names(checkers) & _names([extension]):
            raise HarnessError(
                f"{package} has a checker for the kind {min(twice)}, and another checker has the "
                "same kind",
                hint="Give the kind another name, or uninstall the package.",
            )
        checkers.append(extension)
    return tuple(checkers)


def all_kinds() -> dict[str, Kind]:
    """Return all kinds of anomaly that checkers find, by name.

    Raises:
        HarnessError: for the same reasons as ``all_checkers``.
    """
    return {kind.name: kind for checker in all_checkers() for kind in checker.kinds}


def our_kinds() -> dict[str, Kind]:
    """Return the kinds of Highwater's own checkers; the reference model explains only these."""
    return {kind.name: kind for checker in CHECKERS for kind in checker.kinds}


def kind(name: str) -> Kind:
    """Return the kind of anomaly with this name, or a substitute if no checker finds it.

    The checker that found the anomaly may not be installed: it can belong to another package or to
    an older release of Highwater.
    """
    entries = {entry.name: entry for entry in (*all_kinds().values(), *FOREIGN)}
    if name in entries:
        return entries[name]
    return Kind(
        name,
        guarantee="",
        singular=f"anomaly {name}",
        plural=f"anomalies {name}",
        severity=Severity.UNDECIDED,
        promise="not known here: no installed checker finds this kind",
        breaks=never,
    )


def _names(checkers: Iterable[Checker]) -> set[str]:
    return {name for checker in checkers for name in checker.names}
