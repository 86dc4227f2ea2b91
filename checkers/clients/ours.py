"""The clients' view of runs of ours, as checkers of the registry.

What became of each record their own fence and disks tell better: lost-write, unseen and duplicate
are ``checkers.fates``'s, which has a record as lost whether it was read before or not, so that
nothing is called vanished. Write-write edges are left out of cycles: those are everyday in Kafka.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from checkers.clients import cycles
from checkers.clients.find import KINDS, find
from checkers.engine import Rows
from checkers.registry import SCHEMA, checkers

if TYPE_CHECKING:
    from checkers.tables import Tables

GUARANTEES: Final = {
    "inconsistent-offsets": "Whoever names an offset, producer or reader, names the same record.",
    "phantom": "Every record that is read was sent.",
    "G1a": "A reader of committed records returns none of a transaction that was aborted.",
    "precommitted-read": "No transaction reads what it has sent itself.",
    "poll-skip": "A poll begins with the record after the last one of the poll before.",
    "int-poll-skip": "A poll leaves out no record between two that it returns.",
    "nonmonotonic-poll": "A poll begins behind the last record of the poll before.",
    "int-nonmonotonic-poll": "A poll returns records in the order of the log.",
    "nonmonotonic-send": "A producer's records stand in the log in the order of their sending.",
    "int-nonmonotonic-send": "So do those of one transaction.",
    "int-send-skip": "The records of one transaction stand side by side.",
}

ACYCLIC: Final = {
    "G1c": "No two transactions read from each other, however many are in between.",
    "G1c-process": "Nor does one that its own process did before another that it reads from.",
    "G1c-realtime": "Nor does one that had ended before another that it reads from began.",
}


@checkers(GUARANTEES)
def clients(tables: "Tables") -> Rows:
    """What the clients of our runs saw, record by record and step by step."""
    return find(tables.view, KINDS & GUARANTEES.keys())


@checkers(ACYCLIC)
def operations(tables: "Tables") -> Rows | pa.Table:
    """What the operations of their clients were to each other."""
    found = cycles.find(tables.view, ww=False) if tables.view.entangled else None
    return SCHEMA.empty_table() if found is None else found
