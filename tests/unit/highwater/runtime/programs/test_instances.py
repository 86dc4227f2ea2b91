"""Instances of a program under test are supervised, and end with the run; real processes."""

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.history import INSTANCES_TABLE, read_stream
from highwater.harness.runs.plan import Plan, ProgramPlan, Topic
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.nemesis.faults.registry import NothingDoneError, find_fault
from highwater.nemesis.injector import Nemesis
from highwater.runtime.programs import instances
from highwater.runtime.programs.instances import RunningProgram, resolved

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
DIES = "import sys; print('no such setting'); sys.exit(3)"
FLOODS = "import time\nwhile True: print('x' * 1000000, flush=True); time.sleep(0.02)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
SHOWS = (
    "import os, sys; of = os.environ.get; "
    "print(sys.argv[1:], of('HIGHWATER_GROUP'), of('BROKERS'), flush=True); " + SLEEPS
)
SERVES = (
    "import os, socket, sys, time; port = sys.argv[1]; assert port == os.getenv('HIGHWATER_PORT'); "
    "listener = socket.create_server(('', int(port))); print(port, flush=True); time.sleep(60)"
)
Starter = Callable[..., RunningProgram]


class Diary:
    def fault(self, *_: object, **__: object) -> None:
        """Say nothing."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def start(run: Run) -> Iterator[Starter]:
    with Recorder(run, Clock(), program=True) as recorder, contextlib.ExitStack() as stack:

        def begin(script: str, *words: str, **fields: object) -> RunningProgram:
            program = ProgramPlan(command=(sys.executable, "-c", script, *words))
            program = msgspec.structs.replace(program, **fields)
            plan = Plan(kafka="4.4.0", topic=Topic(name="orders"), program=program)
            running = RunningProgram(plan, program, "127.0.0.1:9092", recorder, run.logs)
            return stack.enter_context(running)

        yield begin


def events(run: Run) -> list[tuple[int, int, str, int | None]]:
    rows = [r for batch in read_stream(run.stream(INSTANCES_TABLE)) for r in batch.to_pylist()]
    return [(row["instance"], row["life"], row["event"], row["status"]) for row in rows]


def await_events(run: Run, *expected: tuple[int, int, str, int | None]) -> None:
    await_condition(
        lambda: events(run), lambda seen: {*expected} <= {*seen}, what="its lives", limit_s=60
    )


def test_a_killed_instance_stays_down_until_it_is_healed(start: Starter, run: Run) -> None:
    program = start(SLEEPS, instances=2)
    program.instances[1].kill()
    await_events(run, (1, 1, "killed", -9))
    time.sleep(0.5)
    assert [instance.number for instance in program.running()] == [0]
    with pytest.raises(NothingDoneError):
        program.instances[1].kill()
    program.instances[1].start()
    await_events(run, (1, 2, "started", None))


def test_an_instance_that_ends_by_itself_is_started_again(
    start: Starter, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_QUICK_S", 0.0)
    program = start("import time; time.sleep(1.5); print('no such file', flush=True)")
    await_events(run, (0, 1, "ended", 0), (0, 2, "started", None))
    assert program.crashed(stuck=False) == []
    [says] = program.crashed(stuck=True)
    assert says.startswith("Instance 0 of the program exited by itself ")
    assert says.endswith("Its last output: no such file")


def test_crashes_are_forgotten_once_an_instance_runs(
    start: Starter, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(instances, "_BACK_OFF_S", (0.1,))
    monkeypatch.setattr(instances, "_QUICK_S", 60.0)
    broken = tmp_path / "broken"
    code = "import os, sys, time; time.sleep(0 if os.path.exists(sys.argv[1]) else 60)"
    program = start(code, str(broken))
    program.instances[0].kill()
    broken.touch()
    program.instances[0].start()
    await_events(run, *((0, life, "ended", 0) for life in (2, 3, 4)))
    [says] = program.crashed(stuck=False)
    assert says.startswith("Instance 0 of the program exited by itself ")
    broken.unlink()
    await_condition(
        lambda: [program.instances[0].stays], all, what="a start that goes well", limit_s=30
    )
    assert program.crashed(stuck=False)
    monkeypatch.setattr(instances, "_QUICK_S", 1.0)
    assert not program.crashed(stuck=False)


def test_a_program_that_ends_at_once_is_refused_with_what_it_printed(start: Starter) -> None:
    with pytest.raises(UsageError, match="exits at once: 3 starts in a row") as refused:
        start(DIES)
    assert "no such setting" in refused.value.hint


def test_a_pause_freezes_an_instance_and_the_end_wakes_it(start: Starter, run: Run) -> None:
    program = start(SLEEPS)
    program.instances[0].pause()
    assert not program.running()
    program.close()
    seen = [event for _, _, event, _ in events(run)]
    assert seen == ["started", "paused", "resumed", "closed"]


def test_one_that_ignores_sigterm_is_killed(
    start: Starter, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_TERM_S", 0.3)
    program = start(STUBBORN, instances=2)
    assert not program.instances[0].terminate()
    await_events(run, (0, 1, "killed", -9))
    program.close()
    await_events(run, (1, 1, "closed", -9))
    assert program.notes() == [
        "instance 1 of the program ignored SIGTERM for 0.3 s, and was killed"
    ]


def test_sigterm_is_told_from_sigkill(start: Starter, run: Run) -> None:
    assert start(SLEEPS).instances[0].terminate()
    await_events(run, (0, 1, "stopped", -15))


def test_placeholders_and_variables_say_where_to_read_and_write(start: Starter, run: Run) -> None:
    words = ("{bootstrap}", "{in}>{out}", "{group}.{instance}", '{"a": {}}')
    start(SHOWS, *words, env=("BROKERS=tcp://{bootstrap}", "A=b=c"))
    log = (run.logs / "app-0.log").read_text()
    expected = ["127.0.0.1:9092", "orders>out", "orders-group.0", '{"a": {}}']
    assert log.startswith(f"{expected} orders-group tcp://127.0.0.1:9092")


def test_each_instance_can_listen_on_a_port_of_its_own(start: Starter, run: Run) -> None:
    program = start(SERVES, "{port}", instances=2)
    program.instances[0].kill()
    program.instances[0].start()
    await_events(run, (0, 2, "started", None))
    logs = [run.logs / f"app-{number}.log" for number in range(2)]
    ports = await_condition(
        lambda: [log.read_text().split() for log in logs],
        lambda seen: [len(words) for words in seen] == [2, 1],
        what="each instance to listen",
        limit_s=60,
    )
    assert ports[0][0] == ports[0][1] != ports[1][0]


def test_a_long_output_is_bounded(
    start: Starter, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 << 20
    monkeypatch.setattr(instances, "LOG_BYTES_MOST", most)
    program = start(FLOODS)
    sizes = []
    for _ in range(30):
        sizes.append((run.logs / "app-0.log").stat().st_size)
        time.sleep(0.1)
    assert min(sizes[15:]) < 4 * most
    assert any(after < before for before, after in itertools.pairwise(sizes))
    program.close()  # so that it is not looked at between the cut and the note
    assert "bytes were removed here]" in (run.logs / "app-0.log").read_text()


@pytest.mark.parametrize(
    ("fault", "before", "after"),
    [("app-kill", "killed", "started"), ("app-stop", "stopped", "started"),
     ("app-pause", "paused", "resumed")],
)  # fmt: skip
def test_a_fault_hits_an_instance_and_heals(
    start: Starter, run: Run, fault: str, before: str, after: str
) -> None:
    cluster: Any = object()
    nemesis = Nemesis(cluster, Diary(), program=start(SLEEPS))
    nemesis.inject(fault, choice=0.5)
    assert not nemesis.can(fault)
    await_condition(
        lambda: events(run)[-1][2], lambda seen: seen == before, what=before, limit_s=60
    )
    nemesis.heal_all()
    await_condition(lambda: events(run)[-1][2], lambda seen: seen == after, what=after, limit_s=60)
    assert find_fault(fault).scope == "program"


def test_one_more_instance_joins_and_leaves_in_order(start: Starter, run: Run) -> None:
    cluster: Any = object()
    program = start(SLEEPS)
    nemesis = Nemesis(cluster, Diary(), program=program)
    for life in (1, 2):
        nemesis.inject("app-scale")
        await_events(run, (1, life, "started", None))
        nemesis.heal_all()
        await_events(run, (1, life, "stopped", -15))
    assert [instance.number for instance in program.running()] == [0]


class Settings:
    """A cluster that only keeps what its topics are set to."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, dict[str, str | None]]] = []

    def configure(self, topic: str, changes: dict[str, str | None]) -> None:
        self.changes.append((topic, changes))


def test_outputs_are_refused_until_it_heals(start: Starter) -> None:
    cluster: Any = Settings()
    program = start(SLEEPS)
    nemesis = Nemesis(cluster, Diary(), program=program)
    nemesis.inject("app-refuse-outputs")
    assert cluster.changes == [(program.out, {"max.message.bytes": "78"})]
    nemesis.heal_all()
    assert cluster.changes[1:] == [(program.out, {"max.message.bytes": None})]
    program.plan = msgspec.structs.replace(program.plan, out="")
    with pytest.raises(NothingDoneError, match="no topic"):
        nemesis.inject("app-refuse-outputs")


def test_there_may_be_nothing_to_hit(start: Starter) -> None:
    cluster: Any = object()
    program = start(SLEEPS)
    program.instances[0].kill()
    with pytest.raises(NothingDoneError, match="no instance"):
        Nemesis(cluster, Diary(), program=program).inject("app-kill")


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="program '/no/such/service' does not exist"):
        resolved(("/no/such/service",))


def test_a_supervisor_that_fails_ends_the_run(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(instances, "ChildProcess", fail)
    with pytest.raises(HarnessError, match="no process can be started"):
        start(SLEEPS)
