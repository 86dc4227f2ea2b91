"""Lost and unseen records: one definition for Highwater's own runs and for Jepsen's histories.

In Highwater's own runs only the final reader counts. It reads every partition up to its last
record, the fence. In Jepsen's histories every reader counts. A partition counts as read up to the
greatest offset that any reader returned.
"""

from typing import NamedTuple

from highwater.checkers.history.columns import Bools


class MissingRecords(NamedTuple):
    """The missing records, as two masks with one value for each record."""

    lost: Bools
    unseen: Bools


def missing_records(
    *, took_effect: Bools, acknowledged: Bools, returned: Bools, passed: Bools
) -> MissingRecords:
    """Decide which records are lost and which are unseen.

    A record is lost if it took effect, no reader returned it, and a reader passed its offset
    (``lost-write-cases`` of ``jepsen.tests.kafka``). A record is unseen if it was acknowledged, no
    reader returned it, and no reader passed its offset. Each argument is a mask of records.

    Args:
        took_effect: acknowledged records, and records that other operations show in the log.
        acknowledged: acknowledged records.
        returned: records that a reader returned.
        passed: records whose offset a reader reached.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
