"""Situations of the model in which a run's partitions were observed.

The observer queries each broker separately. A response is certain from the end of its query to the
start of the last query with the same response. Between that time and the end of the next query, an
offset can have any value from the one response to the next. So two offsets are compared only if
every possible pair of values gives the same result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from highwater.checkers.model.search.situations import LeaderState, Replica, situation
from highwater.harness.runs.partition_trace import UNKNOWN, Leadership, PartitionTrace, Track

QUIET_NS: Final = 500_000_000
"""A decision is ignored for this time before the next decision is observed, because the metadata
of a broker may be older. In older runs, which do not have the last query with each response, a
response counts as certain until this time before the next."""


def observed_situations(trace: PartitionTrace, replicas: frozenset[int]) -> dict[int, int]:
    """Return the time (ns) of the first observation of each situation of a partition.

    The function ignores a time if the observations around it allow several situations. It also
    ignores the time until every broker was queried, and ``QUIET_NS`` before each new decision.

    Args:
        replicas: the brokers that have a replica.
    """
    first: dict[int, int] = {}
    responses = {b: _Responses.of(trace.tracks[b]) for b in replicas & trace.tracks.keys()}
    begin = max((int(seen.track.time_ns[0]) for seen in responses.values()), default=0)
    for time_ns in _moments(trace, responses):
        leadership = _settled(trace, time_ns)
        if leadership is None or time_ns < begin:
            continue
        number = _situation(responses, leadership, replicas, time_ns)
        if number is not None:
            first.setdefault(number, time_ns)
    return first


@dataclass(frozen=True, slots=True, eq=False)
class _Responses:
    """A broker's responses; ``until_ns`` has for each the time up to which it is certain."""

    track: Track
    until_ns: list[int]

    @classmethod
    def of(cls, track: Track) -> Self:
        """Return the responses of a track."""
        times, until_ns = track.time_ns, track.unchanged_ns
        if (until_ns == UNKNOWN).all():
            until_ns = np.maximum(times, np.append(times[1:] - QUIET_NS, times[-1:]))
        return cls(track, until_ns.tolist())

    def rows(self, time_ns: int) -> range:
        """Return the rows of the broker's possible states at a time; empty if it is unknown."""
        last = int(np.searchsorted(self.track.time_ns, time_ns, side="right")) - 1
        for row in range(last, len(self.until_ns)):
            if time_ns <= self.until_ns[row]:
                return range(last, row + 1)
        return range(0)

    def bounds(self, end: str, time_ns: int) -> tuple[int, int] | None:
        """Return the least and the greatest possible ``leo`` or ``hw``; None if it is unknown."""
        rows = self.rows(time_ns)
        values = getattr(self.track, end)[rows.start : rows.stop].tolist()
        return (min(values), max(values)) if values and UNKNOWN not in values else None

    def answers(self, time_ns: int) -> bool | None:
        """Return whether the broker responds at a time; None if the observations allow both."""
        states = {bool(self.track.leo[row] != UNKNOWN) for row in self.rows(time_ns)}
        return states.pop() if len(states) == 1 else None


def _moments(trace: PartitionTrace, responses: Mapping[int, _Responses]) -> list[int]:
    """Return the times of all responses and decisions, and those up to which they are certain."""
    times = {row.time_ns for row in trace.leaderships}
    for seen in responses.values():
        times.update(seen.track.time_ns.tolist(), seen.until_ns)
    return sorted(times)


def _settled(trace: PartitionTrace, time_ns: int) -> Leadership | None:
    """Return the leadership at a time; None if the next decision may already be made."""
    leadership = trace.leadership(time_ns)
    if leadership is None or trace.leadership(time_ns + QUIET_NS) is not leadership:
        return None
    until_ns = leadership.unchanged_ns
    return leadership if until_ns is None or time_ns <= until_ns else None


def _situation(
    responses: Mapping[int, _Responses],
    leadership: Leadership,
    replicas: frozenset[int],
    time_ns: int,
) -> int | None:
    """Return the situation at a time; None if the observations allow several situations.

    The observer queries the HW before the LEO. So the HW is below the LEO only if the next HW is
    below this LEO, too.
    """
    answers = {b: b in responses and responses[b].answers(time_ns) for b in replicas}
    if None in answers.values():
        return None
    leader = leadership.leader
    others = sorted(replicas - {leader})
    if leader not in replicas or not answers[leader]:
        state = LeaderState.SILENT if leader in replicas else LeaderState.NONE
        seen = (Replica(in_isr=b in leadership.isr, answers=bool(answers[b])) for b in others)
        return situation(state, seen)
    hw, leo = (responses[leader].bounds(end, time_ns) for end in ("hw", "leo"))
    committed = _compared(hw, leo)
    if committed != 0:
        committed = _compared(responses[leader].bounds("hw", time_ns + 1), leo)
    replicas_seen = []
    for b in others:
        signs: dict[str, int | None] = {}
        if answers[b]:
            signs = {
                name: _compared(responses[b].bounds(name, time_ns), ends)
                for name, ends in (("leo", leo), ("hw", hw))
            }
        in_isr = b in leadership.isr
        replicas_seen.append(Replica(in_isr=in_isr, answers=bool(answers[b]), **signs))
        if None in signs.values():
            return None
    if committed is None or committed > 0:
        return None
    state = LeaderState.UNCOMMITTED if committed < 0 else LeaderState.COMMITTED
    return situation(state, replicas_seen)


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
