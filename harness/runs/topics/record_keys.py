"""Keys of a workload on a compacted topic: the names of its records, and the topic's settings.

A record's name has its key: ``k5=p0-17`` gives the key ``k5`` a value, and ``k5~p0-17`` deletes it.
A tombstone has no value to hold its name. Its timestamp does, which compaction keeps: producer and
sequence number, added to a moment of 2004 that no clock shows any more. The brokers' retention of
tombstones does not ask for timestamps (LogCleaner).
"""

import hashlib
import re
from typing import Final, NamedTuple

from highwater.harness.runs.plan import Plan

WRITES: Final = "="
DELETES: Final = "~"
FIRST_MS: Final = 1 << 40
PRODUCERS: Final = 64
"""A tombstone's timestamp is ``FIRST_MS + sequence * PRODUCERS + producer``."""

LAST_MS: Final = FIRST_MS + (1 << 37)
"""Timestamps of workloads end before it, in 2009: a later one is of another's tombstone."""

TIMESTAMPS: Final = (0, 10)
"""The first release whose records have timestamps (KIP-32)."""

_NAME: Final = re.compile(rf"(?P<key>k[0-9]+)(?P<op>[{WRITES}{DELETES}])p(?P<by>\d+)-(?P<nth>\d+)")


class KeyedName(NamedTuple):
    """The parts of a record's name."""

    key: str
    deletes: bool
    producer: int
    sequence: int

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of a tombstone of this name."""
        return FIRST_MS + self.sequence * PRODUCERS + self.producer


def keyed_name(plan: Plan, producer: int, sequence: int) -> str:
    """Return the name of a producer's record, with its key, both drawn from the seed."""
    name = f"p{producer}-{sequence}"
    digest = hashlib.blake2b(f"{plan.seed}/{name}".encode(), digest_size=8).digest()
    key, chance = int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big") / (1 << 32)
    op = DELETES if chance < plan.workload.tombstones else WRITES
    return f"k{key % plan.workload.keys}{op}{name}"


def parts(name: str) -> KeyedName | None:
    """Return the parts of a record's name; None if it has no key."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return KeyedName(match["key"], match["op"] == DELETES, int(match["by"]), int(match["nth"]))


def tombstone_name(key: bytes, timestamp_ms: int) -> str:
    """Return the name of a tombstone that was read; one that is not of a workload has none."""
    sequence, producer = divmod(timestamp_ms - FIRST_MS, PRODUCERS)
    if not FIRST_MS <= timestamp_ms < LAST_MS:
        return ""
    return f"{key.decode('utf-8', 'backslashreplace')}{DELETES}p{producer}-{sequence}"
