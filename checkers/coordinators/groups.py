"""The groups in ``__consumer_offsets``: a log that no coordinator can load.

A classic group has one record (``GroupMetadata``). A group of the KIP-848 protocol has several. A
coordinator cannot load a member of the KIP-848 protocol while the log says that the group is
classic. Then it serves no group of the partition
(``GroupMetadataManager.getOrMaybeCreatePersistedConsumerGroup`` of 4.0 to 4.4).
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Final

from aiokafka.protocol.types import Int16, Schema, String

from highwater.checkers.coordinators.folded_logs import Row
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION
from highwater.checkers.groups.events import GroupFinding
from highwater.checkers.groups.offsets_topic import TOPIC

CLASSIC: Final = 2
CONSUMER: Final = 3
MEMBER: Final = 5
"""Versions of keys: ``GroupMetadata``, ``ConsumerGroupMetadata``, ``…MemberMetadata``."""

DOWNGRADED: Final = "the group of KIP-848 becomes a classic one"
_CLASSIC: Final = "the group is a classic one"

_KEY: Final = Schema(("group", String()))


def wrong_groups(log: Sequence[Row]) -> Iterator[GroupFinding]:
    """Yield, for a complete log, the first record of each group that no coordinator can load."""
    classic: dict[str, tuple[int, str]] = {}
    removed: dict[str, int] = {}
    wrong: dict[str, GroupFinding] = {}
    for row in log:
        version, group = _group(row)
        if version == CLASSIC and row["value"]:
            downgraded = removed.get(group) == row["offset"] - 1
            classic[group] = row["offset"], DOWNGRADED if downgraded else _CLASSIC
        elif version == CONSUMER and not row["value"]:
            removed[group] = row["offset"]
        elif version == CLASSIC:
            classic.pop(group, None)
        elif version == MEMBER and row["value"] and group in classic and group not in wrong:
            (begun, says), at = classic[group], row["offset"]
            wrong[group] = GroupFinding(
                kind=COORDINATOR_CONTRADICTION,
                group=group,
                partition=0,
                says=f"No coordinator can load {TOPIC}: offset {begun} makes {group} a classic"
                f" group, and offset {at} is a member of the brokers' protocol.",
                records=((begun, None, says), (at, None, "a member of KIP-848 is in it")),
            )
    yield from wrong.values()


def _group(row: Row) -> tuple[int, str]:
    """Return the version and the group of a record's key; ``(-1, "")`` for other kinds of keys."""
    key = BytesIO(row["key"] or b"")
    try:
        version = Int16.decode(key)
        if version not in {CLASSIC, CONSUMER, MEMBER}:
            return -1, ""
        return version, str(_KEY.decode(key)[0])
    except ValueError:
        return -1, ""
