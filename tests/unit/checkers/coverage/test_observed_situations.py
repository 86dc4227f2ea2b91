"""Situations are claimed only where the observations allow no other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checkers.coverage.observed_situations import QUIET_NS, observed_situations
from highwater.checkers.model.search.situations import LeaderState, Replica, situation
from highwater.harness.runs.partition_trace import UNKNOWN, Leadership, PartitionTrace, Track

STEP = 100_000_000
GONE = (UNKNOWN, UNKNOWN)
EQUAL = Replica(in_isr=True, answers=True, leo=0, hw=0)


def trace(
    *, leader: int = 1, isr: tuple[int, ...] = (1, 2), **samples: dict[int, tuple[int, int]]
) -> PartitionTrace:
    """Two replicas; ``a`` and ``b`` are the samples of brokers 1 and 2: step to (LEO, HW)."""
    tracks = {
        broker: Track.of(broker, [(step * STEP, *ends) for step, ends in samples[name].items()])
        for broker, name in ((1, "a"), (2, "b"))
    }
    first = Leadership(time_ns=0, leader=leader, epoch=0, isr=isr)
    return PartitionTrace(leaderships=[first], tracks=tracks)


def seen(partition: PartitionTrace) -> set[int]:
    return set(observed_situations(partition, frozenset({1, 2})))


def test_a_quiet_partition_is_in_one_situation() -> None:
    partition = trace(a={0: (5, 5), 60: (6, 6)}, b={0: (5, 5), 60: (6, 6)})
    first = observed_situations(partition, frozenset({1, 2}))
    assert first == {situation(LeaderState.COMMITTED, [EQUAL]): 0}


@pytest.mark.parametrize(
    ("ends", "leo", "hw"), [((3, 5), -1, 0), ((7, 5), 1, 0), ((5, 4), 0, -1), ((9, 9), 1, 1)]
)
def test_ends_are_compared_with_the_leaders(ends: tuple[int, int], leo: int, hw: int) -> None:
    partition = trace(a={0: (5, 5), 60: (5, 5)}, b={0: ends, 60: ends})
    replica = Replica(in_isr=True, answers=True, leo=leo, hw=hw)
    assert seen(partition) == {situation(LeaderState.COMMITTED, [replica])}


def test_a_leo_that_may_have_risen_in_between_is_not_compared() -> None:
    """The follower's 7 is seen after the leader's 5 and before its 9: the leader may have had 7."""
    ends = {0: (5, 5), 2: (9, 9), 90: (9, 9)}
    partition = trace(a=ends, b={1: (7, 7), 80: (7, 7)})
    quiet = Replica(in_isr=True, answers=True, leo=-1, hw=-1)
    at_first = situation(LeaderState.SILENT, [Replica(in_isr=True, answers=False)])
    assert seen(partition) - {at_first} <= {
        situation(LeaderState.COMMITTED, [quiet]),
        situation(LeaderState.COMMITTED, [Replica(in_isr=True, answers=False)]),
    }
    assert situation(LeaderState.COMMITTED, [quiet]) in seen(partition)


def test_a_follower_above_both_answers_of_its_leader_is_ahead() -> None:
    partition = trace(a={0: (6, 5), 2: (7, 5), 90: (7, 7)}, b={0: (6, 5), 1: (9, 5), 3: (7, 5)})
    ahead = Replica(in_isr=True, answers=True, leo=1, hw=0)
    assert situation(LeaderState.UNCOMMITTED, [ahead]) in seen(partition)


@given(st.lists(st.sampled_from("sfhf. "), min_size=60, max_size=200))
@settings(max_examples=60, deadline=None)
def test_no_situation_is_claimed_that_was_not_there(deeds: list[str]) -> None:
    """Each 10 ms something happens: the leader appends, the follower fetches, the HW rises."""
    leo, hw, true = [0, 0], [0, 0], set()
    rows: dict[int, list[tuple[int, int, int]]] = {1: [], 2: []}
    for step, deed in enumerate(deeds):
        if deed == "s":
            leo[0] += 1
        elif deed == "f":
            leo[1], hw[1] = leo[0], hw[0]
        elif deed == "h":
            hw[0] = leo[1]
        signs = [(one[1] > one[0]) - (one[1] < one[0]) for one in (leo, hw)]
        state = LeaderState.COMMITTED if hw[0] == leo[0] else LeaderState.UNCOMMITTED
        true.add(situation(state, [Replica(in_isr=True, answers=True, leo=signs[0], hw=signs[1])]))
        broker = {0: 1, 4: 2}.get(step % 10)
        if broker and (
            not rows[broker] or rows[broker][-1][1:] != (leo[broker - 1], hw[broker - 1])
        ):
            rows[broker].append((step * STEP // 10, leo[broker - 1], hw[broker - 1]))
    tracks = {broker: Track.of(broker, samples) for broker, samples in rows.items()}
    first = Leadership(time_ns=STEP // 2, leader=1, epoch=0, isr=(1, 2))
    assert seen(PartitionTrace(leaderships=[first], tracks=tracks)) <= true


def test_a_hw_is_below_the_leo_only_if_the_next_hw_is_too() -> None:
    """The observer asks for the HW first: 5 and then 6 may be 6 and 6."""
    unclear = trace(a={0: (5, 5), 20: (6, 5), 21: (6, 6), 60: (6, 6)}, b={0: (5, 5), 60: (5, 5)})
    below = situation(LeaderState.UNCOMMITTED, [Replica(in_isr=True, answers=True, leo=-1, hw=0)])
    assert below not in seen(unclear)
    clear = trace(a={0: (5, 5), 20: (6, 5), 60: (6, 6)}, b={0: (5, 5), 60: (5, 5)})
    assert below in seen(clear)


def test_who_does_not_answer_is_not_compared() -> None:
    gone = trace(a={0: GONE, 60: GONE}, b={0: (5, 5), 60: (5, 5)}, isr=(1,))
    outside = Replica(in_isr=False, answers=True)
    assert seen(gone) == {situation(LeaderState.SILENT, [outside])}
    alone = trace(a={0: (5, 5), 60: (5, 5)}, b={0: GONE, 60: GONE})
    assert seen(alone) == {situation(LeaderState.COMMITTED, [Replica(in_isr=True, answers=False)])}
    none = trace(a={0: GONE, 60: GONE}, b={0: GONE, 60: GONE}, leader=-1, isr=(1,))
    silent = [Replica(in_isr=in_isr, answers=False) for in_isr in (True, False)]
    assert seen(none) == {situation(LeaderState.NONE, silent)}


def test_a_pause_is_looked_at_where_it_is_quiet() -> None:
    """Nothing is claimed of the moment of a change; half a second later the ends are known."""
    step = 2 * QUIET_NS // STEP + 1
    ends = {0: (5, 5), 1: (6, 6), 2 * step: (7, 7)}
    partition = trace(a=ends, b={0: (5, 5), 1: (6, 6), 2 * step: (7, 7)})
    assert situation(LeaderState.COMMITTED, [EQUAL]) in seen(partition)


def test_nothing_is_claimed_before_each_broker_was_queried() -> None:
    partition = trace(a={0: (5, 5), 60: (6, 6)}, b={20: (5, 5), 60: (6, 6)})
    first = observed_situations(partition, frozenset({1, 2}))
    assert first == {situation(LeaderState.COMMITTED, [EQUAL]): 20 * STEP}


def test_nothing_is_claimed_shortly_before_a_decision_is_observed() -> None:
    """Broker 2 was removed from the ISR and had stopped before the metadata had it."""
    partition = trace(a={0: (5, 5), 60: (6, 6)}, b={0: (5, 5), 10: GONE})
    later = Leadership(time_ns=12 * STEP, leader=1, epoch=0, isr=(1,))
    partition = PartitionTrace(leaderships=[*partition.leaderships, later], tracks=partition.tracks)
    silent = Replica(in_isr=True, answers=False)
    assert situation(LeaderState.COMMITTED, [silent]) not in seen(partition)


def test_a_late_response_is_not_claimed_of_the_time_of_its_end() -> None:
    """Broker 2 was asked at 10 and responded at 30, when the leader had long had two more."""
    rows = [(0, 5, 5), (20 * STEP, 7, 7), (60 * STEP, 8, 8)]
    leader = Track.of(1, rows, [10 * STEP, 50 * STEP, UNKNOWN])
    rows = [(0, 4, 4), (30 * STEP, 5, 5), (40 * STEP, 7, 7), (60 * STEP, 8, 8)]
    follower = Track.of(2, rows, [9 * STEP, 10 * STEP, 50 * STEP, UNKNOWN])
    first = Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2), unchanged_ns=70 * STEP)
    partition = PartitionTrace(leaderships=[first], tracks={1: leader, 2: follower})
    behind = Replica(in_isr=True, answers=True, leo=-1, hw=-1)
    times = observed_situations(partition, frozenset({1, 2}))
    assert times == {
        situation(LeaderState.COMMITTED, [behind]): 0,
        situation(LeaderState.COMMITTED, [EQUAL]): 40 * STEP,
    }


def test_nothing_is_claimed_after_the_last_query_with_the_leader() -> None:
    ends = [(0, 5, 5), (60 * STEP, 6, 6)]
    tracks = {b: Track.of(b, ends, [50 * STEP, UNKNOWN]) for b in (1, 2)}
    late = Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2), unchanged_ns=-1)
    partition = PartitionTrace(leaderships=[late], tracks=tracks)
    assert observed_situations(partition, frozenset({1, 2})) == {}


@given(st.lists(st.sampled_from("sfhf. ......"), min_size=60, max_size=200), st.data())
@settings(max_examples=60, deadline=None)
def test_no_situation_is_claimed_from_late_responses(deeds: list[str], data: st.DataObject) -> None:
    """As above, and each query lasts a while: the HW and then the LEO are of any time in it."""
    history, true = [(0, 0, 0, 0)], {situation(LeaderState.COMMITTED, [EQUAL])}
    for deed in deeds:
        leo, copied, hw, told = history[-1]
        history.append(
            {
                "s": (leo + 1, copied, hw, told),
                "f": (leo, leo, hw, hw),
                "h": (leo, copied, copied, told),
            }.get(deed, history[-1])
        )
        leo, copied, hw, told = history[-1]
        state = LeaderState.COMMITTED if hw == leo else LeaderState.UNCOMMITTED
        signs = [(a > b) - (a < b) for a, b in ((copied, leo), (told, hw))]
        true.add(situation(state, [Replica(in_isr=True, answers=True, leo=signs[0], hw=signs[1])]))
    tracks = {}
    for b in (0, 1):
        rows: list[tuple[int, int, int]] = []
        unchanged: list[int] = []
        asked = 0
        while (answered := asked + data.draw(st.integers(1, 12))) < len(history):
            at_hw = data.draw(st.integers(asked, answered))
            at_leo = data.draw(st.integers(at_hw, answered))
            ends = (history[at_leo][b], history[at_hw][b + 2])
            if not rows or rows[-1][1:] != ends:
                rows.append((answered, *ends))
                unchanged.append(asked)
            unchanged[-1] = asked
            asked = answered + 1
        tracks[b + 1] = Track.of(b + 1, rows, [*unchanged[:-1], UNKNOWN])
    first = Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2))
    assert seen(PartitionTrace(leaderships=[first], tracks=tracks)) <= true
