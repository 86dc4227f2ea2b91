"""Each mistake is told where disks and lives show it, and not where they do not."""

from dataclasses import replace

import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.groups.generations import Generation
from highwater.checkers.programs.evidence import FollowingInput, InputEvidence
from highwater.checkers.programs.facts import (
    InstanceEvent,
    Output,
    Position,
    ProgramRequest,
    Trouble,
)
from highwater.checkers.programs.habits import EarlyCommit, Habits
from highwater.checkers.programs.mistakes import MISTAKES, mistake_of
from highwater.checkers.programs.outcomes import DOUBLED, HALF, LOST
from highwater.checkers.programs.output_log import LogCopy
from highwater.checkers.programs.requests import GoneOutputs
from highwater.checkers.programs.timeline import steps, witnesses
from highwater.checkers.transactions.coordinated import FENCED, CoordinatedTransaction

S = 1_000_000_000
OF_INPUTS = {
    (mistake.name, mistake.outcome)
    for mistake in MISTAKES
    if mistake.outcome in {LOST, HALF, DOUBLED}
}


def event(at_s: float, name: str, instance: int = 0) -> InstanceEvent:
    return InstanceEvent(int(at_s * S), instance, 1, name, None)


def committed(at_s: float, offset: int, *, transactional: bool = False) -> Position:
    return Position(int(at_s * S), offset, transactional)


def output(at_s: float) -> Output:
    return Output(int(at_s * S), 0, 3, place="offset 3 of payments-0")


def generation(at_s: float, number: int, **partitions: int) -> tuple[int, Generation]:
    """A generation of members that have a partition each."""
    members = {member: frozenset([partition]) for member, partition in partitions.items()}
    return int(at_s * S), Generation(int(at_s * 1000), number, members)


def asked_at(at_s: float) -> ProgramRequest:
    return ProgramRequest(int(at_s * S), int(at_s * S) + 1000, 0, 0)


COMMITTED_FIRST = InputEvidence(
    name="p0-17",
    offset=17,
    outcome=LOST,
    guarantee="at-least-once",
    commits=[committed(3, 10), committed(4, 20), committed(9, 40)],
    events=[event(1, "started"), event(4.5, "killed"), event(6, "started")],
    later_ns=7 * S,
)
PAST_THE_END = replace(COMMITTED_FIRST, invoked_ns=int(4.2 * S), sent_ns=int(4.3 * S))
EARLY = EarlyCommit(2 * S, 1, 8, 3 * S)
SOON_AFTER = replace(
    COMMITTED_FIRST,
    commits=[committed(3, 16), committed(4, 18), committed(9, 40)],
    invoked_ns=int(3.9 * S),
    habits=Habits(past_the_end=[EARLY] * 3),
)
HALF_OF_IT = replace(COMMITTED_FIRST, outcome=HALF, outputs=[output(4.2)])
PASSED_OVER = replace(COMMITTED_FIRST, later_ns=int(3.5 * S), events=[event(1, "started")])
OUTSIDE = replace(PASSED_OVER, withdrawn=True, guarantee="exactly-once")
NOT_COMMITTED = InputEvidence(
    name="p0-17",
    offset=17,
    outcome=DOUBLED,
    guarantee="at-least-once",
    outputs=[output(4), output(8)],
    commits=[committed(3, 10), committed(9, 40)],
    events=[event(1, "started"), event(4.5, "killed"), event(6, "started")],
)
NO_TRANSACTION = replace(NOT_COMMITTED, guarantee="exactly-once", transactional=False)
ZOMBIE = replace(
    NOT_COMMITTED,
    outputs=[output(6), output(9)],
    events=[event(4, "paused"), event(8, "resumed")],
)

TRANSACTIONAL = Habits(in_transactions=True)
OUTSIDE_AND_KILLED = replace(COMMITTED_FIRST, habits=TRANSACTIONAL, guarantee="exactly-once")
OUTSIDE_AND_DOUBLED = replace(NOT_COMMITTED, habits=TRANSACTIONAL, transactional=True)
PLAIN_OUTPUT = replace(
    NO_TRANSACTION, commits=[committed(3, 10, transactional=True), committed(9, 40)]
)
NO_WAY_BACK = replace(
    PASSED_OVER,
    guarantee="exactly-once",
    withdrawn=True,
    commits=[committed(3, 10, transactional=True), committed(4, 20, transactional=True)],
)
FENCED_BY_ANOTHER = CoordinatedTransaction("payments", 7, 3000, 3500, FENCED, succeeded=True)
SHARED = replace(NO_WAY_BACK, withdrawn=False, habits=Habits(fenced=[FENCED_BY_ANOTHER]))
STRAY = replace(COMMITTED_FIRST, stray=LogCopy(4 * S, 2, 0, 9, None, transactional=False))
LATEST = replace(
    PASSED_OVER,
    commits=[committed(4, 20)],
    sent_ns=S,
    following=FollowingInput(18, int(2.1 * S), int(3.5 * S)),
    habits=Habits(generations=[generation(2, 1, a=0)]),
)
HANDED_OVER = replace(
    COMMITTED_FIRST,
    events=[event(1, "started", 0), event(1, "started", 1), event(9, "killed", 0)],
    habits=Habits(generations=[generation(2, 1, a=0, b=1), generation(5, 2, a=1, b=0)]),
)
HANDED_OVER_UNCOMMITTED = replace(
    NOT_COMMITTED,
    events=[event(1, "started")],
    habits=HANDED_OVER.habits,
)
AUTOMATIC = replace(COMMITTED_FIRST, habits=Habits(ahead=3, amid=4, behind=9, interval_s=1.0))
BEHIND = Habits(behind=40)
IGNORED = replace(
    PASSED_OVER,
    habits=BEHIND,
    troubles=[Trouble(int(3.2 * S), int(3.4 * S), "app-cut", "instance 0 is cut off")],
)

GONE = replace(
    PASSED_OVER,
    habits=BEHIND,
    undisturbed_ns=0,
    gone=[GoneOutputs(int(3.4 * S), int(3.5 * S), 0, 30, -1)],
)
LEADER_ALONE = replace(GONE, gone=[GONE.gone[0]._replace(acks=1)])
NEWEST = replace(
    COMMITTED_FIRST,
    later_ns=int(3.9 * S),
    habits=Habits(amid=30, behind=50, newest=29, late_ns=S),
)
ABORTED_BEFORE = replace(NO_WAY_BACK, withdrawn=False, habits=Habits(aborted=[int(3.5 * S)]))
BY_TRANSACTION = replace(NO_WAY_BACK, withdrawn=False)
ALIVE = replace(
    NOT_COMMITTED,
    events=[event(1, "started")],
    habits=Habits(generations=[generation(2, 1, a=0)]),
)
TWO_SENDERS = replace(
    ALIVE,
    events=[event(1, "started", 0), event(1, "started", 1)],
    outputs=[
        output(at_s)._replace(by=ProgramRequest(int(at_s * S), int(at_s * S), sender, 0))
        for sender, at_s in enumerate((4, 8))
    ],
)
WENT_BACK = replace(
    ALIVE,
    commits=[committed(3, 10), committed(5, 30), committed(6, 12)],
    habits=Habits(generations=[generation(2, 1, a=0, b=1), generation(7, 2, a=0)]),
)
READ_BEFORE = replace(
    ALIVE,
    idempotent=True,
    sent_ns=S,
    commits=[committed(3, 10), committed(5, 30), committed(6, 12)],
    habits=Habits(generations=[generation(2, 1, a=0, b=1), generation(3.5, 2, a=0)]),
)
COMMITTED_TWICE = replace(
    READ_BEFORE, commits=[committed(3, 10), committed(3.6, 18), committed(7.9, 18)]
)
"""As in a program that commits first, and reads the input again after a rebalance."""
OF_ONE_SENDER = replace(
    READ_BEFORE,
    outputs=[sent._replace(by=TWO_SENDERS.outputs[0].by) for sent in READ_BEFORE.outputs],
    events=[*TWO_SENDERS.events, event(5.5, "stopped", 1), event(7, "started", 1)],
)
"""Another instance ends and starts meanwhile."""
NO_LONGER_ITS_OWN = replace(
    TWO_SENDERS,
    commits=[committed(3, 17), committed(4.1, 18), committed(7, 60), committed(8.1, 18)],
    habits=Habits(),
)
PUT_OUT = replace(ALIVE, habits=Habits(generations=[generation(2, 1, a=0), generation(6, 2, b=0)]))
TAKEN = replace(PUT_OUT, troubles=[Trouble(3 * S, 5 * S, "app-cut", "instance 0 is cut off")])
NEVER = replace(NOT_COMMITTED, commits=[], group={0: [], 1: []}, habits=Habits(busy_s=12.0))
AT_A_GAP = replace(NOT_COMMITTED, commits=[committed(3, 10)], gap=lambda offset: offset == 10)
OF_BOTH = replace(Habits(), generations=[
    (2 * S, Generation(2000, 1, {"a": frozenset([0, 1]), "b": frozenset([2])}))
])  # fmt: skip
SOME = replace(
    NOT_COMMITTED,
    events=[event(1, "started"), event(6, "killed"), event(7, "started")],
    habits=OF_BOTH,
    whole_ns=lambda since: 4 * S if since == 10 else FOREVER,
    group={1: [committed(at_s, offset) for offset, at_s in enumerate((4.1, 5, 5.5), 1)]},
)

ON_THE_WAY = replace(
    SOME,
    events=[
        event(1, "started"),
        event(3.97, "killed"),
        event(4.05, "started"),
        event(6, "stopped"),
    ],
)
"""The first output was on its way when the instance was killed."""

UNANSWERED = ProgramRequest(int(3.7 * S), None, 1, None)
IGNORED_ON_THE_WIRE = replace(PASSED_OVER, habits=BEHIND, undisturbed_ns=0, unwritten=[UNANSWERED])
FIRST_ON_THE_WIRE = replace(IGNORED_ON_THE_WIRE, habits=Habits(ahead=3))

SHOWN = (
    ("acknowledged output that brokers have lost", GONE),
    ("output that its leader alone had", LEADER_ALONE),
    ("delivery error ignored", IGNORED_ON_THE_WIRE),
    ("position committed before the output was acknowledged", FIRST_ON_THE_WIRE),
    ("output that brokers have lost", STRAY),
    ("offset that brokers assigned twice", replace(PASSED_OVER, rival="p0-16")),
    ("position past the end of the log", PAST_THE_END),
    ("position past the end of the log", replace(PASSED_OVER, invoked_ns=5 * S)),
    ("position past the end of the log", SOON_AFTER),
    ("position outside of the transaction", OUTSIDE),
    ("position outside of the transaction", OUTSIDE_AND_KILLED),
    ("position outside of the transaction", OUTSIDE_AND_DOUBLED),
    ("transactional id shared by instances", SHARED),
    ("no seek back after an aborted transaction", NO_WAY_BACK),
    ("auto.offset.reset=latest without a position", LATEST),
    (
        "auto.offset.reset=latest without a position",
        replace(LATEST, invoked_ns=S, sent_ns=int(3.2 * S)),  # acknowledged late
    ),
    (
        "auto.offset.reset=latest without a position, or input skipped",
        replace(LATEST, habits=Habits()),
    ),
    ("rebalance that was not waited for", HANDED_OVER),
    ("rebalance that was not waited for", HANDED_OVER_UNCOMMITTED),
    ("automatic commit while records were being processed", AUTOMATIC),
    (
        "automatic commit while records were being processed",
        replace(HALF_OF_IT, habits=AUTOMATIC.habits),
    ),
    ("position committed before the output was acknowledged", COMMITTED_FIRST),
    ("position committed before the output was acknowledged", HALF_OF_IT),
    ("delivery error ignored, or input skipped", IGNORED),
    ("position of the newest finished input committed", NEWEST),
    (
        "automatic commit beside the program's own",
        replace(COMMITTED_FIRST, habits=Habits(behind=400, ahead=12, reversals=12)),
    ),
    ("no seek back after an aborted transaction", ABORTED_BEFORE),
    ("no seek back after an aborted transaction, or input skipped", BY_TRANSACTION),
    ("rebalance that was not waited for", TWO_SENDERS),
    ("rebalance that was not waited for", READ_BEFORE),
    ("rebalance that was not waited for", COMMITTED_TWICE),
    ("rebalance that was not waited for", NO_LONGER_ITS_OWN),
    ("rebalance that was not waited for", OF_ONE_SENDER),
    (
        "rebalance that was not waited for",
        replace(READ_BEFORE, commits=[committed(5, 30), committed(8.1, 20)]),
    ),
    ("older position committed over a newer one", WENT_BACK),
    ("poll or heartbeat later than the group's timeout", PUT_OUT),
    ("position not committed when the group revoked the partition", TAKEN),
    ("output sent again by the program, or input read again", replace(ALIVE, idempotent=True)),
    (
        "retry without idempotence, or output sent again by the program",
        replace(ALIVE, idempotent=False),
    ),
    ("no position committed by the group", NEVER),
    ("position stopped before an offset without a record", AT_A_GAP),
    (
        "position stopped before an offset without a record",
        replace(AT_A_GAP, commits=[committed(at_s, 10) for at_s in (3, 4, 9)]),
    ),
    ("positions of some partitions not committed", SOME),
    ("no transactions, and exactly-once is declared", replace(NO_TRANSACTION, events=[])),
    ("input passed without an output", PASSED_OVER),
    ("output outside of the transaction", PLAIN_OUTPUT),
    ("paused instance continued with inputs of a lost partition", ZOMBIE),
    (
        "paused instance continued with inputs of a lost partition",
        replace(ZOMBIE, events=[event(4, "paused"), event(9.05, "resumed")]),  # noted afterwards
    ),
    ("position not committed when an instance ended", NOT_COMMITTED),
    ("position not committed when an instance ended", ON_THE_WAY),
    ("position not committed when an instance ended", replace(ON_THE_WAY, group={})),
)


def told(evidence: InputEvidence) -> str | None:
    mistake = mistake_of(evidence)
    return mistake and mistake[0].name


def test_outputs_behind_the_position_show_that_it_was_committed_first() -> None:
    """Outputs go to several partitions, so a later input may have had its output."""
    early = replace(COMMITTED_FIRST, later_ns=int(4.2 * S))
    asked: list[tuple[int, Position, int]] = []

    def overdue(before: int, passed: Position, until_ns: int) -> int:
        asked.append((before, passed, until_ns))
        return int(4.3 * S)

    assert told(early) is None
    assert told(replace(early, overdue_ns=overdue)) == told(COMMITTED_FIRST)
    assert asked == [(10, committed(4, 20), int(4.5 * S))]
    moved = [committed(3, 10), committed(4, 20), committed(4.4, 30)]
    assert told(replace(early, overdue_ns=overdue, commits=moved)) is None


def test_every_mistake_is_shown_here() -> None:
    assert {(name, evidence.outcome) for name, evidence in SHOWN} == OF_INPUTS


@pytest.mark.parametrize(("name", "evidence"), SHOWN)
def test_a_mistake_is_told_by_its_evidence(name: str, evidence: InputEvidence) -> None:
    assert told(evidence) == name


@pytest.mark.parametrize(
    ("evidence", "name"),
    [
        # The input was sent before, as far as clocks tell.
        (replace(PAST_THE_END, invoked_ns=int(4.05 * S)), "committed before"),
        (replace(PAST_THE_END, committed_by=lambda _: asked_at(4.25)), "committed before"),
        (replace(PAST_THE_END, invoked_ns=4 * S, committed_by=lambda _: asked_at(3.99)), "past"),
        # The program may have read it: it was sent before the last commit, or is not the last one.
        (replace(SOON_AFTER, invoked_ns=int(2.9 * S)), "committed before"),
        (replace(SOON_AFTER, offset=16), "committed before"),
        (replace(SOON_AFTER, habits=Habits(past_the_end=[EARLY] * 2)), "committed before"),
        # A broker may have lost what was at its offset.
        (replace(PAST_THE_END, troubles=[Trouble(3 * S, 4 * S, "kill", "")]), "committed before"),
        # A timer that never commits in the midst of outputs is no timer.
        (replace(AUTOMATIC, habits=Habits(ahead=9, interval_s=1.0)), "committed before"),
        (replace(AUTOMATIC, habits=Habits(ahead=3, amid=4, behind=9)), "committed before"),
        # The member that had the input in work was killed.
        (
            replace(
                HANDED_OVER,
                events=[event(4.5, "killed")],
                habits=Habits(generations=[generation(2, 1, a=0), generation(5, 2, b=0)]),
            ),
            "committed before",
        ),
        # Its outputs were still written after the rebalance, until it was killed.
        (replace(HANDED_OVER, overdue_ns=lambda *_: 6 * S, later_ns=10 * S), "committed before"),
        # Who comes back in the same generation has waited for nothing.
        (
            replace(HANDED_OVER, habits=Habits(generations=[generation(2, 1, a=0, b=1)])),
            None,
        ),
        # There was a position; the next input was there, too; an instance ended in between.
        (replace(LATEST, commits=[committed(1, 10), committed(4, 20)]), "passed without"),
        (replace(LATEST, following=FollowingInput(18, S, int(3.5 * S))), "passed without"),
        (replace(LATEST, habits=Habits()), "or input skipped"),
        (replace(LATEST, habits=Habits(), calm=1), "passed without"),
        (replace(LATEST, calm=1), "passed without"),  # it skips inputs elsewhere
        (replace(LATEST, overdue_ns=lambda *_: int(2.2 * S)), "passed without"),
        (replace(LATEST, events=[event(2.5, "killed")]), None),
        # A program that skips inputs without any fault may have skipped this one, too.
        (replace(IGNORED, calm=1), "passed without"),
        # Its work may have been over long before the end; a program that commits first is another.
        (replace(NEWEST, events=[event(5.5, "killed")]), None),
        (replace(NEWEST, habits=Habits(amid=60, newest=29, late_ns=S)), None),
        # The other partitions are another member's, or were not committed often enough, or an
        # input before this one was still in work.
        (replace(SOME, habits=Habits(generations=[generation(2, 1, a=0, b=1)])), "not committed"),
        (replace(SOME, group={1: SOME.group[1][:2]}), "not committed when"),
        (replace(SOME, whole_ns=lambda _: int(5.2 * S)), "not committed when"),
        (replace(AT_A_GAP, commits=[committed(3, 10), committed(9, 40)]), "not committed when"),
        (
            replace(AT_A_GAP, commits=[committed(3, 10), committed(4.1, 12), committed(4.2, 10)]),
            "not committed when",
        ),
        (replace(NEVER, habits=Habits(busy_s=3.0)), "not committed when"),
        (replace(NEVER, group={1: [committed(3, 10)]}), "not committed when"),
        # It was read twice: an instance ended, or there was a rebalance, or it is not known.
        (replace(ALIVE, idempotent=True, events=NOT_COMMITTED.events), "not committed when"),
        (replace(ALIVE, idempotent=True, habits=Habits()), None),
        (replace(ALIVE, idempotent=True, events=TWO_SENDERS.events), None),
        (replace(ALIVE, idempotent=None), None),
        # A member that stayed in the rebalance may have read it before and after that.
        (replace(READ_BEFORE, commits=[committed(3, 10), committed(5, 30)]), None),
        (replace(READ_BEFORE, sent_ns=None), None),
        (replace(READ_BEFORE, commits=[committed(5, 30), committed(7, 20)]), None),
        (replace(READ_BEFORE, commits=[committed(5, 30), committed(8.1, 30)]), None),
        (replace(COMMITTED_TWICE, commits=[committed(3.6, 18), committed(7.9, 30)]), None),
        (replace(COMMITTED_TWICE, sent_ns=int(3.7 * S)), "output sent again"),
        # It may have read the input again: from an older position, or when it started.
        (
            replace(NO_LONGER_ITS_OWN, commits=[committed(4.1, 18), committed(6, 12)]),
            None,
        ),
        (
            replace(
                NO_LONGER_ITS_OWN,
                events=[*NO_LONGER_ITS_OWN.events, event(6, "started", 1)],
            ),
            None,
        ),
        (
            replace(
                NO_LONGER_ITS_OWN, troubles=[Trouble(3 * S, 5 * S, "app-cut", "instance 1 is cut")]
            ),
            None,
        ),
        # Another instance's end and start do not make this one read again.
        (replace(OF_ONE_SENDER, sent_ns=None), None),
        (replace(OF_ONE_SENDER, sent_ns=None, commits=NOT_COMMITTED.commits), None),
        (replace(OF_ONE_SENDER, sent_ns=int(3.7 * S)), "output sent again"),
        (
            replace(OF_ONE_SENDER, sent_ns=None, events=[event(5.5, "stopped", 0)],
                    commits=NOT_COMMITTED.commits),
            "not committed when an instance",
        ),
        (replace(READ_BEFORE, sent_ns=int(3.7 * S)), "output sent again"),
        (
            replace(
                READ_BEFORE,
                habits=Habits(generations=[generation(2, 1, b=0), generation(3.5, 2, a=0)]),
            ),
            "output sent again",
        ),
        (replace(WENT_BACK, commits=[committed(3, 10), committed(5, 30), committed(6, 25)]), None),
        # No member asked for the older position: the input was not read again because of it.
        (replace(WENT_BACK, habits=ALIVE.habits), None),
        (replace(WENT_BACK, habits=ALIVE.habits, events=[event(7, "started")]), "older position"),
        # An instance that was paused when the member got the partition may have written it.
        (
            replace(HANDED_OVER_UNCOMMITTED, events=[event(1.5, "paused"), event(3.9, "resumed")]),
            None,
        ),
        (
            replace(HANDED_OVER_UNCOMMITTED, events=[event(2.5, "paused"), event(3.9, "resumed")]),
            "not waited for",
        ),
        # The member was away for a reason, or ended in order.
        (replace(PUT_OUT, events=[event(1, "started"), event(5, "paused")]), "not committed when"),
        # The program names no transactions at all: the nearer mistake is named.
        (NO_TRANSACTION, "not committed when"),
        # No fault while the input was passed.
        (replace(IGNORED, troubles=[Trouble(8 * S, 9 * S, "app-cut", "")]), "passed without"),
        (replace(IGNORED, events=[event(3.5, "killed")]), "delivery error"),
        # A program that never commits first has not done it here.
        (replace(COMMITTED_FIRST, habits=BEHIND), "passed without"),
        (replace(COMMITTED_FIRST, habits=BEHIND, later_ns=FOREVER), None),
        # It was acknowledged before the input was sent, or after the commit.
        (replace(GONE, gone=[GoneOutputs(S, 2 * S, 0, 30, -1)]), None),
        (replace(GONE, gone=[GoneOutputs(S, 5 * S, 0, 30, -1)]), None),
        (replace(GONE, habits=Habits(behind=40, ahead=1)), None),
        # Brokers have lost outputs: a retry of this Produce may have been acknowledged.
        (replace(IGNORED_ON_THE_WIRE, gone=[GoneOutputs(S, 2 * S, 0, 30, -1)]), None),
        # A few outputs came late from the network; but not many.
        (replace(IGNORED, habits=Habits(behind=40, amid=2)), "delivery error"),
        (replace(IGNORED, habits=Habits(behind=40, amid=3)), "passed without"),
        # The program may do one or the other.
        (replace(IGNORED_ON_THE_WIRE, habits=Habits(behind=4)), None),
        # Kafka may have torn the transaction.
        (replace(NO_WAY_BACK, undisturbed_ns=S), None),
        (replace(SHARED, undisturbed_ns=S), None),
        (replace(LATEST, undisturbed_ns=S), None),
        (replace(SHARED, habits=Habits()), "or input skipped"),
        # One position at least was in a transaction.
        (
            replace(
                OUTSIDE_AND_DOUBLED,
                commits=[committed(3, 10), committed(9, 40, transactional=True)],
            ),
            "not committed when",
        ),
        # The member that had written the output did not stay.
        (
            replace(
                HANDED_OVER_UNCOMMITTED,
                habits=Habits(generations=[generation(2, 1, a=0), generation(5, 2, b=0)]),
            ),
            "poll or heartbeat",
        ),
    ],
)  # fmt: skip
def test_evidence_of_one_mistake_is_not_taken_for_its_neighbour(
    evidence: InputEvidence, name: str | None
) -> None:
    mistake = told(evidence)
    assert mistake is None if name is None else name in (mistake or "")


@pytest.mark.parametrize(
    "evidence",
    [
        replace(COMMITTED_FIRST, commits=None),  # no disk has positions
        replace(COMMITTED_FIRST, commits=[committed(3, 10)]),  # only the coordinator told it
        replace(COMMITTED_FIRST, events=[], later_ns=FOREVER),  # no instance ended
        replace(COMMITTED_FIRST, later_ns=int(4.2 * S)),  # a later input had its output before
        replace(COMMITTED_FIRST, undisturbed_ns=4 * S),  # a broker may have lost the output
        replace(PASSED_OVER, undisturbed_ns=int(3.8 * S)),
        replace(PASSED_OVER, events=[event(3.2, "paused")]),
        replace(PASSED_OVER, events=[event(9, "killed")]),  # its output may have been in flight
        replace(OUTSIDE, commits=[committed(4, 20, transactional=True)], later_ns=5 * S, events=[
            event(4.5, "killed"), event(4.6, "started")], undisturbed_ns=0),
        replace(HALF_OF_IT, outputs=[output(3.9)]),  # the others may have been refused
        replace(HALF_OF_IT, outputs=[output(4.2), output(4.6)]),  # it went on after the end
        replace(HALF_OF_IT, later_ns=int(4.3 * S)),  # it had gone on to the next input
        replace(HALF_OF_IT, undisturbed_ns=4 * S),  # a broker may have lost the others
        replace(HALF_OF_IT, habits=BEHIND),  # an output may have come late from the network
        replace(HALF_OF_IT, events=[event(1, "started")]),  # nothing interrupted it
        replace(HALF_OF_IT, later_ns=int(4.3 * S), habits=Habits(ahead=3), unwritten=[UNANSWERED]),
        replace(NOT_COMMITTED, commits=None),  # no disk has positions
        replace(NOT_COMMITTED, commits=[committed(4.2, 18)]),  # the position was safe
        replace(NOT_COMMITTED, events=[event(1, "started")]),  # nothing interrupted it
        replace(NOT_COMMITTED, events=[event(8.5, "killed")]),
        replace(TWO_SENDERS, habits=Habits()),
        replace(TWO_SENDERS, troubles=TAKEN.troubles),  # the first one may have come late
        replace(PUT_OUT, commits=None),
        replace(NO_TRANSACTION, transactional=None, events=[]),  # no copy of the log
        replace(NO_TRANSACTION, transactional=True, events=[]),
        replace(ZOMBIE, events=[event(4, "paused"), event(5, "resumed")]),
        replace(ZOMBIE, events=[event(4, "paused"), event(9.2, "resumed")], commits=None),
    ],
)  # fmt: skip
def test_nothing_is_told_that_is_not_shown(evidence: InputEvidence) -> None:
    assert told(evidence) is None


def test_the_way_of_an_input_is_in_order_of_time_and_ends_with_the_mistake() -> None:
    mistake = mistake_of(COMMITTED_FIRST)
    assert mistake is not None
    row = {"steps": steps(replace(COMMITTED_FIRST, sent_ns=2 * S), mistake[0])}
    ways = witnesses(row)
    assert [way.time_ns for way in ways[:-1]] == [2 * S, 3 * S, 4 * S, int(4.5 * S), 6 * S]
    assert [way.what for way in ways] == [
        "acknowledged", "committed", "committed", "killed", "started", "mistake",
    ]  # fmt: skip
    assert "Instance 0 was killed at 4.500 s." in [way.says for way in ways]
    assert mistake[0].fix in ways[-1].says
    assert "instance 0 was killed at 4.500 s" in mistake[1]


def test_an_instance_may_not_handle_sigterm() -> None:
    stopped = replace(NOT_COMMITTED, events=[event(4.5, "stopped")._replace(status=-15)])
    mistake = mistake_of(stopped)
    assert mistake is not None
    assert "instance 0 was stopped at 4.500 s, and did not handle SIGTERM, when" in mistake[1]


def test_who_did_it_may_not_be_known() -> None:
    row = {"steps": steps(COMMITTED_FIRST, None)}
    assert witnesses(row)[-1].says == "The cause is not known."
