"""The habits of a program, and the log of its output, from a run's files."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import ProgramFacts, Trouble
from highwater.checkers.programs.habits import Habits, interval_s
from highwater.checkers.programs.output_log import OutputLog
from highwater.checkers.programs.output_times import OutputTimes
from highwater.checkers.run_files import RunFiles
from tests.support.logdirs import Broker, batch, marker
from tests.support.run_builder import MS
from tests.unit.checkers.groups.test_generations import assignment, generation
from tests.unit.checkers.programs.test_inputs import START_MS, commit, output, written
from tests.unit.checkers.transactions.test_coordinated import ABORTING, ONGOING, state


def put(
    base: int,
    at_ms: int,
    *values: str,
    producer: int = -1,
    epoch: int = 0,
    transactional: bool = False,
) -> bytes:
    """A batch of outputs."""
    return batch(
        base,
        [(None, value.encode()) for value in values],
        epoch=epoch,
        producer=(producer, 0, 0),
        transactional=transactional,
        time_ms=START_MS + at_ms,
    )


def of(case: RunFiles) -> tuple[ProgramFacts, OutputLog, Habits]:
    facts = ProgramFacts.of(case)
    assert facts is not None
    log = OutputLog.of(case, facts)
    return facts, log, Habits.of(case, facts, OutputTimes(facts), log)


@pytest.mark.parametrize(
    ("gaps", "interval"),
    [
        ([1.0, 1.01, 0.99, 2.0, 1.0, 3.01], 1.0),
        ([5.0, 5.0, 5.02, 4.99, 5.01, 10.0], 5.0),
        ([1.0, 1.0, 1.0, 1.0], None),  # too few
        ([0.61, 0.83, 1.27, 0.55, 1.94, 0.7, 1.1], None),
        ([0.05] * 9, None),  # no timer is as quick
        ([1.0] * 8 + [0.96, 1.01, 1.68, 1.12, 0.48, 1.11, 2.64], 1.0),  # a busy machine
        ([1.0] * 7 + [0.96, 0.48, 1.68, 1.12, 1.11, 2.64], None),
        ([1.0] * 5 + [0.9, 0.48, 1.68, 1.12, 1.11, 2.64, 1.33, 1.52, 0.62, 2.45, 1.84], None),
        ([0.62, 0.72, 0.82, 0.85, 0.87, 0.94, 0.96, 0.99, 1.0, 1.02, 1.04, 1.04, 1.08], 0.99),
        ([0.25, 0.3, 0.41, 0.9, 0.96, 0.97, 1, 1, 1.01, 1.02, 1.02, 1.03, 1.03, 1.97], 1.01),
        ([0.7, 0.95, 1.2, 1.45, 1.7, 1.95, 2.2] * 9, None),  # no chance, and not alike
        ([2.32, 3.99, 4.98, 4.99, 5.0, 5.0, 5.01, 5.02, 8.97, 10.02, 23.98, 25.02], 5.0),  # exact
        ([2.32, 3.99, 4.98, 4.99, 5.0, 5.01, 8.97, 23.98], None),  # too few
        ([3.69, 4.93, 5.0, 5.28, 5.6, 5.69, 5.8, 5.84, 5.94, 6.0, 6.39, 7.28], 5.75),  # late polls
        ([3.69, 5.0, 5.28, 5.6, 5.94, 6.39, 7.28], None),  # too few
        ([3.0, 4.0, 5.0, 5.4, 5.9, 6.3, 7.1, 8.2, 9.1, 2.2], None),
    ],
)
def test_an_interval(gaps: list[float], interval: float | None) -> None:
    found = interval_s(gaps)
    assert found is None if interval is None else found == pytest.approx(interval, abs=0.02)


def test_commits_before_amid_and_behind_outputs(tmp_path: Path) -> None:
    case = written(
        tmp_path,
        output(0, 300, "p0-0"),
        output(1, 400, "p0-1"),
        output(2, 900, "p0-2"),
        output(3, 950, "p0-0"),  # again: the first one counts
        commits=commit(0, 350, 1)
        + commit(1, 600, 3)
        + generation(2, 1, {"a": assignment("orders", 0)}),
    )
    habits = of(case)[2]
    assert (habits.ahead, habits.amid, habits.behind) == (0, 1, 1)
    assert (habits.newest, habits.late_ns, habits.commits_newest) == (0, 0, False)
    assert habits.interval_s is None
    assert habits.busy_s == pytest.approx(0.65)  # from 300 ms to 950 ms
    assert [(at, made.number) for at, made in habits.generations] == [(200 * MS, 1)]
    assert not habits.automatic
    assert not habits.never_ahead


def test_the_log_of_an_output(tmp_path: Path) -> None:
    case = written(tmp_path, output(0, 300, "p0-0"))
    log = put(0, 300, "p0-0", producer=4) + put(1, 400, "p0-1", transactional=True, producer=5)
    later = put(2, 700, "p0-2", epoch=3)
    Broker(case.run.replicas / "1", 1).log("payments-0", log + later)
    Broker(case.run.replicas / "2", 2).log("payments-0", put(0, 300, "p0-0") + put(1, 350, "p0-9"))
    _, made, habits = of(case)
    assert {name: [(copy.broker, copy.offset, copy.transactional) for copy in copies]
            for name, copies in made.copies.items()} == {
        "p0-0": [(1, 0, False)], "p0-1": [(1, 1, True)], "p0-2": [(1, 2, False)],
        "p0-9": [(2, 1, False)],
    }  # fmt: skip
    assert made.producers == {4, 5}
    assert made.whole_until_ns == 400 * MS  # after that another broker led
    assert habits.in_transactions is False


@pytest.mark.parametrize(("base", "epoch"), [(1, 0), (0, 1)])
def test_a_log_that_does_not_begin_with_its_first_epoch_may_lack_anything(
    tmp_path: Path, base: int, epoch: int
) -> None:
    case = written(tmp_path, output(0, 300, "p0-0"))
    Broker(case.run.replicas / "1", 1).log("payments-0", put(base, 300, "p0-0", epoch=epoch))
    assert of(case)[1].whole_until_ns == 0


@pytest.mark.parametrize(
    ("begin_ms", "producer", "instances", "cut_ms", "fenced"),
    [
        (700, 7, 2, None, 1),
        (450, 7, 2, None, 0),  # an instance was killed at 500 ms
        (700, 8, 2, None, 0),  # it is not of its producers
        (700, 7, 1, None, 0),  # each instance has a transactional id
        (700, 7, 2, 600, 0),  # a producer may have fenced itself
        (700, 7, 2, 900, 1),
    ],
)
def test_transactions_that_another_instance_ended(
    tmp_path: Path, begin_ms: int, producer: int, instances: int, cut_ms: int | None, fenced: int
) -> None:
    states = state(0, START_MS + begin_ms, ONGOING) + state(1, START_MS + 800, ABORTING, epoch=1)
    case = written(tmp_path, output(0, 300, "p0-0"), states=states)
    log = put(0, 750, "p0-0", producer=producer, transactional=True)
    end = marker(1, producer=producer, commit=False)
    Broker(case.run.replicas / "1", 1).log("payments-0", log + end)
    facts, made, _ = of(case)
    cut = [] if cut_ms is None else [Trouble(cut_ms * MS, FOREVER, "app-cut", "It is cut off.")]
    facts = replace(
        facts, program=msgspec.structs.replace(facts.program, instances=instances), troubles=cut
    )
    habits = Habits.of(case, facts, OutputTimes(facts), made)
    assert len(habits.fenced) == fenced
    assert len(habits.aborted) == (producer == 7)
    assert habits.in_transactions


@pytest.mark.parametrize(
    ("times", "steady"),
    [
        ((1000, 1300, 1600, 1900, 2200), True),
        ((1000, 1300, 1600, 2200, 2500), True),
        ((1000, 1170, 1600, 2050, 2500), False),
    ],
)
def test_a_timer_begins_with_the_assignment(
    tmp_path: Path, times: tuple[int, ...], steady: bool
) -> None:
    """The instance is killed at 500 ms, and back at 600 ms; it is closed at 5 s."""
    commits = [commit(number, at_ms, number) for number, at_ms in enumerate(times, 8)]
    log = generation(7, 1, {"a": assignment("orders", 0)}) + b"".join(commits)
    closing = commit(13, 4900, 14)  # comes off the timer
    habits = of(written(tmp_path, output(0, 300, "p0-0"), commits=log + closing))[2]
    assert (habits.interval_s is not None) == steady


def test_a_timer_is_read_where_no_connection_had_a_fault(tmp_path: Path) -> None:
    times = (1000, 1290, 1600, 1850, 2060, 2270, 2580, 2870, 3170)
    commits = b"".join(commit(number, at_ms, number) for number, at_ms in enumerate(times, 8))
    log = generation(7, 1, {"a": assignment("orders", 0)}) + commits
    case = written(tmp_path, output(0, 300, "p0-0"), commits=log)
    facts, made, habits = of(case)
    assert habits.interval_s is None
    cut = Trouble(1650 * MS, 2250 * MS, "app-cut", "It is cut off.")
    calm = Habits.of(case, replace(facts, troubles=[cut]), OutputTimes(facts), made)
    assert calm.interval_s == pytest.approx(0.3, abs=0.01)


def test_positions_that_go_back_without_a_rebalance(tmp_path: Path) -> None:
    commits = [commit(1 + n, 700 + 10 * n, 2 if n % 2 else 3) for n in range(6)]
    log = generation(0, 1, {"a": assignment("orders", 0)}) + b"".join(commits)
    habits = of(written(tmp_path / "one", output(0, 300, "p0-0"), commits=log))[2]
    assert habits.reversals == 3
    again = generation(8, 2, {"b": assignment("orders", 0)})
    log += again + commit(9, 900, 1)
    habits = of(written(tmp_path / "two", output(0, 300, "p0-0"), commits=log))[2]
    assert habits.reversals == 3
