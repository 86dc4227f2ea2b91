"""``lost-write``, ``unseen`` and ``duplicate``: what became of records, as anomalies."""

from typing import TYPE_CHECKING

from checkers.engine import Rows
from checkers.registry import checkers

if TYPE_CHECKING:
    from checkers.tables import Tables


@checkers(
    {
        "lost-write": "An acknowledged record is read by every reader that passes its offset.",
        "unseen": "The final read reaches the offset of every acknowledged record.",
        "duplicate": "A record that was sent once is read at one offset.",
    }
)
def records(tables: "Tables") -> Rows:
    """What became of records that is not as it should be."""
    return tables.decided
