"""The times at which the inputs of a partition had their outputs, by the inputs' offsets."""

from typing import Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import Position, ProgramFacts, since_start_ns

_MS_NS: Final = 1_000_000
"""Brokers tell times in whole milliseconds."""


class OutputTimes:
    """The times of all outputs of one run, nanoseconds since its start."""

    def __init__(self, facts: ProgramFacts) -> None:
        named = facts.outputs.select(["input", "timestamp_ms"])
        rows = facts.inputs.join(named, "value", "input", join_type="inner").sort_by("offset")
        self._times: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for partition in pc.unique(rows["partition"]).to_pylist():
            of_partition = rows.filter(pc.equal(rows["partition"], partition))
            times = [
                since_start_ns(at, facts.started_ms)
                for at in of_partition["timestamp_ms"].to_pylist()
            ]
            self._times[partition] = of_partition["offset"].to_numpy(), np.array(times, np.int64)

    def later(self, partition: int, offset: int) -> int:
        """Return when the first output of a later input of a partition was written."""
        offsets, times = self._of(partition)
        return int(min(times[offsets > offset], default=FOREVER))

    def overdue(self, partition: int, since: int, passed: Position, until_ns: int) -> int | None:
        """Return when an output of an input that a commit had passed was last written after it.

        Args:
            since: the committed offset before.
            until_ns: what was written later does not count.
        """
        offsets, times = self._of(partition)
        chosen = times[(offsets >= since) & (offsets < passed.offset)]
        late = chosen[(chosen > passed.time_ns + _MS_NS) & (chosen <= until_ns)]
        return int(late.max()) if len(late) else None

    def _of(self, partition: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._times.get(partition, (np.empty(0, np.int64), np.empty(0, np.int64)))
