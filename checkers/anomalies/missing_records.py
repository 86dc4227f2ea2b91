"""Lost and unseen records: one definition for our own runs and for Jepsen's histories.

The evidence differs. At the end of our own runs a final reader reads every partition up to a
fence: only this reader counts, and it also decides about records without an offset. In Jepsen's
histories every reader counts, and the greatest offset that any reader read is how far they came.
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

    lost: the record took effect, no reader that counts read it, and these readers have passed its
    offset (``lost-write-cases`` of ``jepsen.tests.kafka``). unseen: the record was acknowledged, no
    reader that counts read it, and none is known to have reached its offset.

    A record ``took_effect`` if it was acknowledged, or if other operations prove it. It was
    ``returned`` if a reader that counts read it, and ``passed`` if such readers reached its offset.
    """
    missing = took_effect & ~returned
    return MissingRecords(missing & passed, missing & ~passed & acknowledged)
