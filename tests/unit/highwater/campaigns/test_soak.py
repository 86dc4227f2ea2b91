"""A soak's plans can be done and repeated; what came of its runs is told, and gone on with."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from highwater.api import JudgedRun
from highwater.campaigns import soak_results
from highwater.campaigns.soak_plan import SHARED, draw
from highwater.campaigns.soak_results import Soak, SoakFolder, SoakRow, number_of
from highwater.campaigns.soak_run import Bounds, _portions
from highwater.campaigns.soak_summary import exit_code, markdown
from highwater.campaigns.steering import Steering
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.registry import (
    CLIENTS,
    CONTROLLERS,
    LOG_DIRS,
    MESSAGE,
    OF_MACHINE,
    OWN_PROCESS,
    PROGRAM,
    TRACES,
    faults,
)
from highwater.runtime.campaign import PlannedRun
from highwater.runtime.cluster_pool import ClusterKey
from highwater.runtime.preflight import check_plan
from tests.browser.samples import SAMPLES

ALL = tuple(CATALOGUE)


def row(number: int, **other: object) -> SoakRow:
    fields: dict[str, object] = {
        "number": number,
        "run": f"{number:06d}-4.3.1",
        "kafka": "4.3.1",
        "state": "kept",
        "command": "highwater soak",
        "seconds": 30.0,
        "acks": "all",
        "sent": 10,
        "acknowledged": 10,
        "lost": 0,
        "struck": {"kill": 2},
        "counts": {},
        "unexplained": (),
        "problems": (),
    }
    return msgspec.convert(fields | other, type=SoakRow)


def possible(*needs: str) -> set[str]:
    """The faults that some release has, without those that need something the soak has not."""
    return {
        name
        for name, one in faults().items()
        if any(not one.why_not(release(kafka), "local") for kafka in ALL)
        and one.needs not in needs
        and not OF_MACHINE.get(one.needs, str)()
    }


def drawn(plans: Sequence[Plan]) -> set[str]:
    return {name for plan in plans for name in plan.nemesis}


def test_every_plan_can_be_done_and_every_fault_and_release_has_its_turn() -> None:
    plans = [draw(7, number, kafkas=ALL) for number in range(2000)]
    for plan in plans:
        check_plan(plan)
    assert {plan.kafka for plan in plans} == set(ALL)
    # a soak has no clients on the wire, one controller, one log directory, no trace, and librdkafka
    lacks = (CLIENTS, MESSAGE, CONTROLLERS, LOG_DIRS, OWN_PROCESS, PROGRAM, TRACES)
    assert drawn(plans) == possible(*lacks)


def test_with_three_controllers_the_faults_that_need_them_have_their_turn_too() -> None:
    plans = [draw(7, number, kafkas=ALL, controllers=3) for number in range(900)]
    for plan in plans:
        check_plan(plan)
        assert plan.controllers == 3
    lacks = (CLIENTS, MESSAGE, LOG_DIRS, OWN_PROCESS, PROGRAM, TRACES)
    assert drawn(plans) == possible(*lacks)
    assert "controller-isolate" in drawn(plans)


def test_a_soak_with_three_controllers_is_repeated_and_continued_as_one(tmp_path: Path) -> None:
    soak = Soak(seed=3, kafkas=ALL, controllers=3)
    assert soak.plan(4).controllers == 3
    assert "--kafka all --controllers 3 --first 4" in soak.command(4)
    assert "--controllers" not in Soak(seed=3, kafkas=ALL).command(4)
    folder = SoakFolder(tmp_path / "soak")
    folder.begin(soak)
    folder.begin(soak)
    with pytest.raises(
        UsageError, match=r"belongs to a soak with other settings: seed 3, .*, 3 controllers"
    ):
        folder.begin(Soak(seed=3, kafkas=ALL))


def test_a_soak_of_before_has_one_controller(tmp_path: Path) -> None:
    folder = SoakFolder(tmp_path / "soak")
    folder.path.mkdir()
    (folder.path / "soak.json").write_text(
        '{"seed":1,"kafkas":["4.3.1"],"driver":"local","each_s":null}', encoding="utf-8"
    )
    folder.begin(Soak(seed=1, kafkas=("4.3.1",)))
    with pytest.raises(UsageError, match="belongs to a soak with other settings"):
        folder.begin(Soak(seed=1, kafkas=("4.3.1",), controllers=3))


def test_a_run_follows_from_seed_and_number_alone() -> None:
    assert draw(1, 23, kafkas=ALL) == draw(1, 23, kafkas=ALL)
    assert len({draw(seed, 23, kafkas=ALL).seed for seed in range(20)}) == 20


def test_a_soak_of_longer_runs_has_the_same_runs_but_longer() -> None:
    short, long = Soak(seed=3, kafkas=ALL), Soak(seed=3, kafkas=ALL, each_s=180.0)
    for number in range(20):
        assert long.plan(number) == msgspec.structs.replace(short.plan(number), duration_s=180.0)
    assert "--each 180 --first 4" in long.command(4)
    assert "--each" not in short.command(4)


def test_runs_in_a_row_share_a_release() -> None:
    for first in range(0, 100, SHARED):
        portion = [draw(3, number, kafkas=ALL) for number in range(first, first + SHARED)]
        assert len({(plan.kafka, plan.wire) for plan in portion}) == 1
        assert len({ClusterKey.of(plan).wired for plan in portion}) == 1


def test_without_a_release_there_is_nothing_to_soak() -> None:
    with pytest.raises(UsageError, match="needs a release"):
        draw(1, 1, kafkas=())


def test_a_soak_of_java_can_be_planned() -> None:
    for number in range(200):
        plan = draw(7, number, kafkas=ALL, client="java")
        check_plan(plan)
        assert (plan.client, plan.to, plan.workload.transform) == ("java", (), False)
        plain = draw(7, number, kafkas=ALL)
        assert (plain.kafka, plain.client) == (plan.kafka, "librdkafka")
    for client in ("kafka-python", "aiokafka"):
        for number in range(100):
            check_plan(draw(7, number, kafkas=ALL, client=client))
    for client in ("java", "kafka-python", "aiokafka"):
        for number in range(200):
            plan = draw(7, number, kafkas=ALL, reader_client=client)
            check_plan(plan)
            assert (plan.client, plan.reader_client, plan.to) == ("librdkafka", client, ())
    readers = Soak(seed=7, kafkas=("4.4.0",), reader_client="java")
    assert "--reader-client java" in readers.command(3)
    assert "readers of java" in readers.words()
    soak = Soak(seed=7, kafkas=("4.4.0",), client="java")
    assert "--client java" in soak.command(3)
    assert "client java" in soak.words()
    assert "client" not in Soak(seed=7, kafkas=("4.4.0",)).command(3)


def test_a_soak_goes_on_where_it_was_and_is_no_other(tmp_path: Path) -> None:
    folder, soak = SoakFolder(tmp_path / "soak"), Soak(seed=1, kafkas=("4.3.1",))
    folder.begin(soak)
    folder.write(row(4))
    folder.write(row(2))
    folder.begin(soak)
    assert [one.number for one in folder.rows()] == [2, 4]
    with pytest.raises(UsageError, match="belongs to a soak with other settings: seed 1"):
        folder.begin(Soak(seed=2, kafkas=("4.3.1",)))
    (folder.path / "rows" / "000002.json").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"000002\.json cannot be read"):
        folder.rows()


def test_runs_that_a_killed_sitting_left_are_found(tmp_path: Path) -> None:
    folder, soak = SoakFolder(tmp_path / "soak"), Soak(seed=1, kafkas=("4.3.1",))
    folder.begin(soak)
    for number in (0, 1):
        (folder.runs.root / soak.name(number)).mkdir()
        (folder.runs.root / soak.name(number) / "plan.json").write_bytes(b"{}")
    folder.write(row(0))
    assert [number_of(run) for run in folder.unjudged()] == [1]


def test_the_summary_tells_the_worst_and_how_to_repeat_it() -> None:
    soak = Soak(seed=5, kafkas=ALL)
    rows = [
        row(0),
        row(1, state="explained", lost=3, counts={"lost-write": 3}),
        row(2, state="unexplained", unexplained=("trace: Two leaders.",), kafka="0.10.2.2",
            command=soak.command(2)),
    ]  # fmt: skip
    text = markdown(soak, rows)
    assert "3 runs of 0.0 hours together on 2 releases: 6 faults, 30 acknowledged" in text
    assert "--seed 5 --kafka all --first 2 --runs 1" in text
    assert "Two leaders." in text
    assert "| kill | 6 | 3 | 2 |" in text
    assert "| lost-write | 3 | 1 |" in text
    assert text.index("## 1 had findings that no rule") < text.index("## 1 broke a promise")


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("kept", "explained"), 0),
        (("kept", "unknown"), 3),
        (("failed", "kept"), 3),
        (("unexplained", "unknown"), 1),
        ((), 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst(states: tuple[str, ...], code: int) -> None:
    assert exit_code([row(n, state=state) for n, state in enumerate(states)]) == code


def test_a_soak_of_a_group_protocol_has_members_in_every_run() -> None:
    for number in range(40):
        plan = draw(7, number, kafkas=("4.4.0",), group_protocol="consumer")
        check_plan(plan)
        assert (plan.workload.group_protocol, plan.workload.subscribe > 0) == ("consumer", True)
        plain = draw(7, number, kafkas=("4.4.0",))
        assert (plain.kafka, plain.workload.group_protocol) == (plan.kafka, "classic")
    soak = Soak(seed=7, kafkas=("4.4.0",), group_protocol="consumer")
    assert soak.plan(3).workload.group_protocol == "consumer"
    assert "--group-protocol consumer" in soak.command(3)
    assert "consumer groups" in soak.words()
    assert "group" not in Soak(seed=7, kafkas=("4.4.0",)).command(3)


def test_records_that_could_not_be_counted_are_not_summed() -> None:
    rows = [row(0, lost=1), row(1, state="failed", acknowledged=900, counted=False)]
    page = markdown(Soak(seed=1, kafkas=("4.3.1",)), rows)
    assert "on 1 release:" in page
    assert "10 acknowledged records, 1 of them lost" in page
    assert "The lost records of 1 run could not be counted." in page
    assert "| 4.3.1 | 2 | 4 | 10 | 1 |" in page


def test_a_brokers_words_are_no_markup_in_the_summary() -> None:
    page = markdown(
        Soak(seed=1, kafkas=("4.3.1",)),
        [row(0, state="failed", problems=("<img src=x> | `rm`",))],
    )
    assert r"  - \<img src=x\> \| \`rm\`" in page


@pytest.mark.parametrize("name", ["valid", "loss"])
def test_the_command_of_a_run_needs_no_run_that_was_deleted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that kept everything is deleted; another is replayed, whatever its path is."""
    monkeypatch.setattr(soak_results, "whole_steps", lambda _: None)
    soak, run = Soak(seed=7, kafkas=("4.3.1",)), SAMPLES[name]().write(tmp_path / "a store")
    judged = JudgedRun(run=run, verdict=run.verdict(), report=run.report)
    again = {"valid": soak.command(3), "loss": f"highwater replay '{run.path}'"}
    assert SoakRow.of(soak, 3, judged).command == again[name]


class Aims(Steering):
    """Yields a run for each situation that no row has, without a search."""

    def runs(
        self, kafka: str, seen: Collection[str], *, driver: str, seed: int
    ) -> Iterator[PlannedRun]:
        for number in range(3):
            if (name := f"situation-{number}") not in seen:
                plan = Plan(kafka=kafka, driver=driver, seed=seed, schedule={"name": f"{name} on"})
                yield PlannedRun(plan=plan, label=name)


def steered(folder: SoakFolder, *, steer: bool = True) -> list[list[PlannedRun]]:
    soak = Soak(seed=1, kafkas=("4.3.1",), steer=steer)
    bounds = Bounds(seconds=1, runs=2 * SHARED)
    return list(_portions(folder, soak, bounds, Aims(paths=folder.path)))


def test_every_second_group_aims_at_situations_that_no_run_had(tmp_path: Path) -> None:
    folder = SoakFolder(tmp_path / "soak")
    blind = steered(folder, steer=False)
    random, aimed = steered(folder)
    assert [run.plan for run in random] == [run.plan for run in blind[0]]
    names = [f"{number:06d}-4.3.1" for number in range(SHARED, SHARED + 3)]
    assert [run.name for run in aimed] == names
    folder.write(row(0, situations=("situation-1",)))
    folder.write(row(1, aim="situation-0"))
    folder.write(row(2, kafka="4.4.0", situations=("situation-2",)))
    [run] = steered(folder)[1]
    assert run.label.endswith("situation-2")
    folder.write(row(3, situations=("situation-2",)))
    left = steered(folder)[1]
    assert [run.plan for run in left] == [run.plan for run in blind[1]]


def test_a_summary_counts_what_runs_aimed_at_and_reached() -> None:
    rows = [
        row(1, situations=("situation-1", "situation-2")),
        row(2, aim="situation-3", situations=("situation-1", "situation-3")),
        row(3, aim="situation-4"),
        row(4, aim="acked-kept", counts={"lost-write": 1}),
        row(5, aim="read-kept", counts={"duplicate": 1}),
    ]
    page = markdown(Soak(seed=1, kafkas=("4.3.1",), steer=True), rows)
    assert "| 4.3.1 | 3 | 4 | 2 |" in page
    assert "Situations" not in markdown(Soak(seed=1, kafkas=("4.3.1",)), [row(1)])
