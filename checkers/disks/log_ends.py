"""The first and last offset of each replica's log on its disk, and the log's leader epochs."""

from highwater.checkers.core.derived import derived
from highwater.checkers.inspection import replica_extents
from highwater.checkers.run_tables import Tables


@derived
def log_spans(tables: Tables) -> list[replica_extents.Span]:
    """Return the records of each replica's log as spans, one for each leader epoch."""
    return replica_extents.spans(tables.log)


@derived
def log_ends(tables: Tables) -> list[replica_extents.LogExtent]:
    """Return the first and the last offset of each replica's log."""
    return replica_extents.ends(log_spans(tables))
