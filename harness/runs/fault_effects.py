"""Offsets that a fault removed from a log, as its sentence in ``events/faults`` says.

The fault that breaks a disk writes the sentence, and the explanation of a loss reads it: no rule of
Kafka's truncates such records, and no line of a broker's log mentions it.
"""

import re
from collections.abc import Iterator
from typing import Final

_REMOVED_TEXT: Final = re.compile(
    r"(?P<topic>[\w.-]+)-(?P<partition>\d+) lost (?P<first>\d+) up to (?P<end>\d+)"
)


def phrase(topic: str, partition: int, first: int, end: int) -> str:
    """Return the words for offsets from ``first`` up to but not including ``end`` that are gone."""
    return f"{topic}-{partition} lost {first} up to {end}"


def removed_offsets(says: str, topic: str, partition: int) -> Iterator[range]:
    """Yield the offsets of a partition that a fault's sentence says are gone."""
    for match in _REMOVED_TEXT.finditer(says):
        if (match["topic"], int(match["partition"])) == (topic, partition):
            yield range(int(match["first"]), int(match["end"]))
