"""Lost and unseen records: one definition for our own runs and for Jepsen's histories.

The evidence differs. Our own runs end with a final reader, which reads every partition up to a
fence. In our own runs only this reader is evidence, even for records without an offset. In Jepsen's
histories every reader is evidence, and the greatest offset that any reader returned is where the
read ended.
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
    reader returned it, and no reader is known to have reached its offset. In our own runs, only the
    final reader is considered.

    A record ``took_effect`` if it was acknowledged, or if other operations prove it. ``returned``
    and ``passed`` state whether such a reader returned the record, and whether it reached the
    record's offset.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
