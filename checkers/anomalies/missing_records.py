"""Lost and unseen records: one definition for our own runs and for Jepsen's histories.

The evidence differs. Our own runs end with a final reader, which reads every partition up to a
fence. Only this reader counts there, also for records without an offset. In Jepsen's histories
every reader counts, and the greatest offset that any reader returned is the end of what was read.
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

    A record is lost if it took effect, no reader that counts read it, and such a reader passed its
    offset (``lost-write-cases`` of ``jepsen.tests.kafka``). A record is unseen if it was
    acknowledged, no reader that counts read it, and no such reader is known to have reached its
    offset.

    A record ``took_effect`` if it was acknowledged, or if other operations prove it. It was
    ``returned`` if a reader that counts read it, and ``passed`` if such readers reached its offset.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
