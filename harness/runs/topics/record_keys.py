"""Keys of a workload on a compacted topic, which are parts of its records' names.

A record's name contains its key: ``k5=p0-17`` gives the key ``k5`` a value, and ``k5~p0-17``
deletes the key. A tombstone has no value that could contain its name. So its timestamp encodes the
name: a time in 2004 plus a number for the producer and the sequence. Compaction preserves
timestamps. The brokers' retention of tombstones does not depend on timestamps (LogCleaner).
"""

import hashlib
import re
from typing import Final, NamedTuple

from highwater.harness.runs.plan import Plan

WRITES: Final = "="
DELETES: Final = "~"
FIRST_MS: Final = 1 << 40
PRODUCERS: Final = 64
"""The greatest number of producers. A tombstone's timestamp is ``FIRST_MS + sequence * PRODUCERS +
producer``."""

LAST_MS: Final = FIRST_MS + (1 << 37)
"""The end, in 2009, of the workload's timestamps. A later timestamp is from another client."""

TIMESTAMPS: Final = (0, 10)
"""The first release whose records have timestamps (KIP-32)."""

_NAME: Final = re.compile(rf"(?P<key>k[0-9]+)(?P<op>[{WRITES}{DELETES}])p(?P<by>\d+)-(?P<nth>\d+)")


class KeyedName(NamedTuple):
    """The parts of a record's name: ``k5~p0-17`` is key k5, deletes, producer 0, sequence 17."""

    key: str
    deletes: bool
    producer: int
    sequence: int

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of a tombstone with this name."""
        return FIRST_MS + self.sequence * PRODUCERS + self.producer


def keyed_name(plan: Plan, producer: int, sequence: int) -> str:
    """Return the name of a producer's record. The seed decides its key and its operation."""
    name = f"p{producer}-{sequence}"
    digest = hashlib.blake2b(f"{plan.seed}/{name}".encode(), digest_size=8).digest()
    key, chance = int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big") / (1 << 32)
    op = DELETES if chance < plan.workload.tombstones else WRITES
    return f"k{key % plan.workload.keys}{op}{name}"


def parts(name: str) -> KeyedName | None:
    """Return the parts of a record's name; None if the name has no key."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return KeyedName(match["key"], match["op"] == DELETES, int(match["by"]), int(match["nth"]))


def tombstone_name(key: bytes, timestamp_ms: int) -> str:
    """Return the name of a tombstone; empty if no workload wrote the tombstone."""
    sequence, producer = divmod(timestamp_ms - FIRST_MS, PRODUCERS)
    if not FIRST_MS <= timestamp_ms < LAST_MS:
        return ""
    return f"{key.decode('utf-8', 'backslashreplace')}{DELETES}p{producer}-{sequence}"
