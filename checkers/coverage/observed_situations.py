"""Situations of the model in which a run's partitions were observed.

The observer queries each broker separately. Between two responses, an offset can have any value
from the first response to the second. So two offsets are compared only if every possible pair of
values gives the same result.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from highwater.checkers.model.search.situations import LeaderState, Replica, situation
from highwater.harness.runs.partition_trace import UNKNOWN, Leadership, PartitionTrace, Track

QUIET_NS: Final = 500_000_000
"""The time after which an unchanged value counts as exact. The observer queries every 100 ms; on
a loaded machine this can take several times as long."""


def observed_situations(trace: PartitionTrace, replicas: frozenset[int]) -> dict[int, int]:
    """Return the time (ns) of the first observation of each situation of a partition.

    The function ignores a time if the observations around it allow several situations. It also
    ignores the time until every broker was queried, and ``QUIET_NS`` before each new decision.

    Args:
        replicas: the brokers that have a replica.
    """
    first: dict[int, int] = {}
    begin = max((trace.tracks[b].time_ns[0] for b in replicas & trace.tracks.keys()), default=0)
    for time_ns in _moments(trace, replicas):
        leadership = trace.leadership(time_ns)
        settled = trace.leadership(time_ns + QUIET_NS) is leadership
        if leadership is None or time_ns < begin or not settled:
            continue
        number = _situation(trace.tracks, leadership, replicas, time_ns)
        if number is not None:
            first.setdefault(number, time_ns)
    return first


def _moments(trace: PartitionTrace, replicas: frozenset[int]) -> Iterator[int]:
    """Yield the times of all responses and decisions, and one time within each long pause."""
    times = {row.time_ns for row in trace.leaderships}
    for broker in replicas & trace.tracks.keys():
        times.update(trace.tracks[broker].time_ns.tolist())
    for time_ns, after in pairwise(sorted(times)):
        yield time_ns
        if after - time_ns > 2 * QUIET_NS:
            yield time_ns + QUIET_NS


def _situation(
    tracks: Mapping[int, Track], leadership: Leadership, replicas: frozenset[int], time_ns: int
) -> int | None:
    """Return the situation at a time; None if the observations allow several situations.

    The observer queries the HW before the LEO. So the HW is below the LEO only if the next HW is
    below this LEO, too.
    """
    answers = {b: b in tracks and tracks[b].at(time_ns)[2] for b in replicas}
    leader = leadership.leader
    others = sorted(replicas - {leader})
    if leader not in replicas or not answers[leader]:
        state = LeaderState.SILENT if leader in replicas else LeaderState.NONE
        seen = (Replica(in_isr=b in leadership.isr, answers=answers[b]) for b in others)
        return situation(state, seen)
    hw, leo = (_bounds(tracks[leader], end, time_ns) for end in ("hw", "leo"))
    committed = _compared(hw, leo)
    if committed != 0:
        committed = _compared(_bounds(tracks[leader], "hw", time_ns + 1), leo)
    replicas_seen = []
    for b in others:
        signs: dict[str, int | None] = {}
        if answers[b]:
            signs = {
                name: _compared(_bounds(tracks[b], name, time_ns), ends)
                for name, ends in (("leo", leo), ("hw", hw))
            }
        replicas_seen.append(Replica(in_isr=b in leadership.isr, answers=answers[b], **signs))
        if None in signs.values():
            return None
    if committed is None or committed > 0:
        return None
    state = LeaderState.UNCOMMITTED if committed < 0 else LeaderState.COMMITTED
    return situation(state, replicas_seen)


def _bounds(track: Track, end: str, time_ns: int) -> tuple[int, int] | None:
    """Return the least and the greatest value that a ``leo`` or ``hw`` can have at a time.

    A value is exact at the time of a response, or if it does not change for ``QUIET_NS``
    afterwards. The result is None if the value is unknown.
    """
    values: npt.NDArray[np.int64] = getattr(track, end)
    after = int(np.searchsorted(track.time_ns, time_ns, side="right"))
    value = int(values[after - 1])
    later = track.time_ns[after : after + 1].tolist()
    if track.time_ns[after - 1] == time_ns or (later and later[0] - time_ns > QUIET_NS):
        return value, value
    other = int(values[after]) if later else UNKNOWN
    return None if other == UNKNOWN else (min(value, other), max(value, other))


def _compared(left: tuple[int, int] | None, right: tuple[int, int] | None) -> int | None:
    """Return -1, 0 or 1 if ``left`` is below, equal to or above ``right``.

    Only the bounds of both values are known. The result is None if they allow several results.
    """
    if left is None or right is None:
        return None
    if left[1] < right[0]:
        return -1
    if left[0] > right[1]:
        return 1
    return 0 if left == right and left[0] == left[1] else None
