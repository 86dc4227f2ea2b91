"""Lost and unseen records: one meaning for our own runs and for histories of Jepsen's.

The evidence differs. After a run of ours a final reader reads every partition up to a fence: only
it counts, and it settles the outcome of a record without an offset too. In a history of Jepsen's
any reader counts, and the greatest offset that one of them read is how far they came.
"""

from typing import NamedTuple

from highwater.checkers.history.columns import Bools


class MissingRecords(NamedTuple):
    """Masks of the lost and of the unseen records."""

    lost: Bools
    unseen: Bools


def missing_records(
    *, took_effect: Bools, acknowledged: Bools, returned: Bools, passed: Bools
) -> MissingRecords:
    """Decide which records are lost and which are unseen.

    lost: it took effect, no reader that counts met it, and these readers have passed its offset
    (``lost-write-cases`` of ``jepsen.tests.kafka``). unseen: it was acknowledged, no such reader
    met it, and none is known to have come so far.

    A record ``took_effect`` if it was acknowledged, or is known from what others saw; it was
    ``returned`` by a reader that counts, and ``passed`` if such readers came as far as its offset.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
