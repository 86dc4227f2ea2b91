"""Logs with batches and a controller's queues, against plain models written another way.

The searched model has a byte for each record, and one number for a controller that died. Here a log
is a list of batches, as its file is, and each broker has a queue of decisions.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.replica_log import cut
from highwater.checkers.model.protocol.state_layout import get
from tests.support.model_dsl import BROKERS, Play

PLAYS = settings(max_examples=60, deadline=None)


class BatchedLog:
    """A log as a list of batches: the offset of the first record, and the records."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[str]]] = []
        self.leo = 0
        self.sent = 0

    def append(self, count: int) -> None:
        names = [f"m{self.sent + number + 1}" for number in range(count)]
        self.batches.append((self.leo, names))
        self.leo, self.sent = self.leo + count, self.sent + count

    def truncate(self, offset: int) -> None:
        """As LogSegment.truncateTo and LocalLog.truncateTo: whole batches go, the LEO is exact."""
        if offset < self.leo:
            self.batches = [
                (first, names) for first, names in self.batches if first + len(names) <= offset
            ]
            self.leo = offset

    def __str__(self) -> str:
        records = ["-"] * self.leo
        for first, names in self.batches:
            records[first : first + len(names)] = names
        return " ".join(records)


@PLAYS
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 3)),
            st.tuples(st.just("cut"), st.integers(0, 6)),
        ),
        max_size=8,
    )
)
def test_a_log_of_batches_is_cut_as_its_file_is(steps: list[tuple[str, int]]) -> None:
    play, plain = Play.of("2.8.2", acks="1"), BatchedLog()
    for verb, number in steps:
        if verb == "cut":
            cut(play.vector, play.k, 0, number)
            plain.truncate(number)
        elif play.can(move := "send A" if number == 1 else f"batch A {number}"):
            play.do(move)
            plain.append(number)
        assert play.log("A") == str(plain)
        assert ("gapless" in play.broken) is ("-" in str(plain).split())


@PLAYS
@given(st.lists(st.tuples(st.sampled_from(["move", "learn", "failover"]), st.integers(0, 2))))
def test_decisions_come_by_queues_that_die_with_their_controller(
    steps: list[tuple[str, int]],
) -> None:
    play = Play.of("3.9.2-zk")
    newest = (0, 0)
    queues: dict[int, list[tuple[int, int]]] = {b: [] for b in range(3)}
    for verb, b in steps:
        move = verb if verb == "failover" else f"{verb} {BROKERS[b]}"
        if verb == "learn":
            assert play.can(move) is bool(queues[b])
        if not play.can(move):
            continue
        play.do(move)
        if verb == "move":
            newest = (b, newest[1] + 1)
            for queue in queues.values():
                queue.append(newest)
        elif verb == "learn":
            leader, epoch = queues[b].pop(0)
            seen = play.now.replicas[b]
            assert (seen.follows, seen.epoch) == (leader, epoch)
        else:
            queues = {number: queue[-1:] for number, queue in queues.items()}
        assert get(play.vector, b, layout.APPLIED_DECISION) <= int(play.vector[layout.DECISIONS])
