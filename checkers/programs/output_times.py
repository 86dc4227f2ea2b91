"""The times of the outputs of a partition's inputs, by the inputs' offsets."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import Position, ProgramFacts, since_start_ns

MS_NS: Final = 1_000_000
"""The number of nanoseconds in a millisecond, the unit of brokers' timestamps."""


class _Outputs(NamedTuple):
    """The outputs of a partition's inputs: input offset and output time, sorted by both."""

    offsets: NDArray[np.int64]
    times: NDArray[np.int64]


class OutputsAround(NamedTuple):
    """The first outputs of the inputs that a commit passed, and their times.

    Attributes:
        before: whether some of these outputs were written before the commit.
        after: whether some of these outputs were written after the commit.
        newest: whether the last input's output was written before the commit.
        late_ns: the time from the commit to the last output.
    """

    before: bool
    after: bool
    newest: bool
    late_ns: int


class OutputTimes:
    """The times of all outputs of one run, in nanoseconds since its start."""

    def __init__(self, facts: ProgramFacts) -> None:
        named = facts.outputs.select(["input", "timestamp_ms"])
        order = [("offset", "ascending"), ("timestamp_ms", "ascending")]
        rows = facts.inputs.join(named, "value", "input", join_type="inner").sort_by(order)
        self._of: dict[int, _Outputs] = {}
        for partition in pc.unique(rows["partition"]).to_pylist():
            of_partition = rows.filter(pc.equal(rows["partition"], partition))
            times = [
                since_start_ns(at, facts.started_ms)
                for at in of_partition["timestamp_ms"].to_pylist()
            ]
            offsets = of_partition["offset"].to_numpy()
            self._of[partition] = _Outputs(offsets, np.array(times, np.int64))

    def later(self, partition: int, offset: int) -> int:
        """Return the time of the first output of any later input of a partition."""
        offsets, times = self._outputs(partition)
        return int(min(times[offsets > offset], default=FOREVER))

    def overdue(self, partition: int, since: int, passed: Position, until_ns: int) -> int | None:
        """Return the last time after a commit at which an output of a passed input was written.

        Args:
            partition: the inputs' partition.
            since: the committed offset before the commit. The commit passed the inputs from here
                on.
            passed: the commit.
            until_ns: outputs that were written after this time are ignored.
        """
        offsets, times = self._outputs(partition)
        chosen = times[(offsets >= since) & (offsets < passed.offset)]
        late = chosen[(chosen > passed.time_ns + MS_NS) & (chosen <= until_ns)]
        return int(late.max()) if len(late) else None

    def around(self, partition: int, since: int, passed: Position) -> OutputsAround:
        """Return when the inputs that a commit passed had their first outputs.

        These are the inputs from offset ``since``, the previous position, to the commit's position.
        """
        offsets, times = self._outputs(partition)
        chosen = (offsets >= since) & (offsets < passed.offset)
        inputs, first = np.unique(offsets[chosen], return_index=True)
        written = times[chosen][first]
        late = written > passed.time_ns + MS_NS
        newest = len(inputs) > 0 and inputs[-1] == passed.offset - 1 and not late[-1]
        delays = written[late] - passed.time_ns
        return OutputsAround(
            bool((~late).any()), bool(late.any()), bool(newest), int(max(delays, default=0))
        )

    def whole_at(self, partition: int, since: int, until: int) -> int:
        """Return when all inputs from offset ``since`` to before ``until`` had their first outputs.

        An input without an output is ignored.
        """
        offsets, times = self._outputs(partition)
        chosen = (offsets >= since) & (offsets < until)
        _, first = np.unique(offsets[chosen], return_index=True)
        return int(max(times[chosen][first], default=FOREVER))

    def following(self, partition: int, offset: int) -> tuple[int, int] | None:
        """Return the next offset whose input has an output, and when the output was written."""
        offsets, times = self._outputs(partition)
        at = int(np.searchsorted(offsets, offset, side="right"))
        return (int(offsets[at]), int(times[at])) if at < len(offsets) else None

    def _outputs(self, partition: int) -> _Outputs:
        return self._of.get(partition) or _Outputs(np.empty(0, np.int64), np.empty(0, np.int64))
