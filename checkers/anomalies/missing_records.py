"""Lost and unseen records: one definition for Highwater's own runs and for Jepsen's histories.

The two kinds of run have different evidence. Highwater's own runs end with a final reader, which
reads every partition up to its last record, the fence. In such a run only the final reader is
evidence. In Jepsen's histories every reader is evidence, and a partition counts as read up to the
greatest offset that any reader returned.
"""

from typing import NamedTuple

from highwater.checkers.history.columns import Bools


class MissingRecords(NamedTuple):
    """Masks of the lost records and of the unseen records."""

    lost: Bools
    unseen: Bools


def missing_records(
    *, took_effect: Bools, acknowledged: Bools, returned: Bools, passed: Bools
) -> MissingRecords:
    """Decide which records are lost and which are unseen.

    A record is lost if it took effect, no reader returned it, and a reader passed its offset
    (``lost-write-cases`` of ``jepsen.tests.kafka``). A record is unseen if it was acknowledged, no
    reader returned it, and no reader is known to have reached its offset. In Highwater's own runs,
    only the final reader counts.

    Args:
        took_effect: the records that were acknowledged, or that other operations show in the log.
        acknowledged: the records that were acknowledged.
        returned: the records that a reader returned.
        passed: the records whose offset a reader reached.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
