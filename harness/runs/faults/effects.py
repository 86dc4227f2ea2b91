"""The effect of a fault: a sentence for users, and the offsets that the fault removed from logs.

To explain a lost record, the judge needs these offsets: neither Kafka's rules nor the brokers' logs
explain their removal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from highwater.harness.runs.faults import legacy_sentences


@dataclass(frozen=True, slots=True)
class RemovedOffsets:
    """Offsets that a fault removed from one replica. ``first`` is included, ``end`` is not."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} lost {self.first} up to {self.end}"


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """The effect of a fault as text, and the offsets that the fault removed."""

    says: str
    removed: Sequence[RemovedOffsets] = ()

    @property
    def rows(self) -> list[dict[str, object]]:
        """The removed offsets as the column ``removed`` of ``events/faults``."""
        return [asdict(offsets) for offsets in self.removed]


def removed_offsets(row: Mapping[str, Any], topic: str, partition: int) -> Iterator[range]:
    """Yield a partition's offsets that the fault in a row of ``events/faults`` removed."""
    removed = row.get("removed")
    if removed is None:
        removed = legacy_sentences.removed(row["says"])
    for offsets in removed:
        if (offsets["topic"], offsets["partition"]) == (topic, partition):
            yield range(offsets["first"], offsets["end"])


def step_of(row: Mapping[str, Any]) -> int | None:
    """Return the number of the model schedule's step in a row of ``events/faults``, or None."""
    step = row.get("step")
    return legacy_sentences.step(row["says"]) if step is None else int(step)
