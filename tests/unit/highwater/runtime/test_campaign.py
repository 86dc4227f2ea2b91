"""The campaign engine, with clusters that are folders: order, failures, and its end."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from highwater.harness.base.errors import HarnessError, Interruption
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime import campaign as module
from highwater.runtime.campaign import Campaign, PlannedRun

WAIT_S = 60.0


@dataclass
class Pools:
    """Pools that perform runs without brokers, and what was asked of them."""

    does: Callable[[Plan, threading.Event], None] = lambda *_: None
    opened: list[Path] = field(default_factory=list)
    closed: list[Path] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, directory: Path) -> "_Pool":
        return _Pool(self, directory)


@dataclass
class _Pool:
    pools: Pools
    directory: Path

    def __enter__(self) -> Self:
        with self.pools.lock:
            self.pools.opened.append(self.directory)
        return self

    def __exit__(self, *_: object) -> None:
        with self.pools.lock:
            self.pools.closed.append(self.directory)

    def execute(
        self,
        plan: Plan,
        store: Store,
        *,
        stop: threading.Event,
        progress: Callable[[str], None],
        name: str | None,
    ) -> Run:
        progress("booting")
        path = store.root / (name or f"run-{plan.seed}")
        path.mkdir(parents=True)
        (path / "plan.json").write_bytes(plan.to_json())
        self.pools.does(plan, stop)
        return store.open(path.name)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    found = Pools()
    monkeypatch.setattr(module, "ClusterPool", found)
    return found


def planned(seed: int, **fields: str) -> PlannedRun:
    return PlannedRun(plan=Plan(kafka="4.3.1", seed=seed), label=f"run {seed}", **fields)  # type: ignore[arg-type]


def seeds(runs: Sequence[Run]) -> list[int]:
    return [run.plan().seed for run in runs]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_runs_come_in_the_order_of_plans_and_groups_share_a_pool(
    jobs: int, pools: Pools, tmp_path: Path
) -> None:
    groups = [[planned(1), planned(2)], [planned(3)], [planned(4), planned(5)]]
    with Campaign(store=Store(tmp_path), clusters=tmp_path / "clusters", jobs=jobs) as campaign:
        runs = campaign.perform_all(groups)
    assert seeds(runs) == [1, 2, 3, 4, 5]
    assert len(pools.opened) == len(set(pools.opened)) == len(pools.closed) == 3


@pytest.mark.usefixtures("pools")
def test_a_complete_run_gets_its_files_and_its_name(tmp_path: Path) -> None:
    one = PlannedRun(
        plan=Plan(kafka="4.3.1"), label="", name="mine", files={"schedule.json": b"{}"}
    )
    with Campaign(store=Store(tmp_path)) as campaign:
        [run] = campaign.perform_all([[one]])
        clusters = campaign.clusters
    assert (run.name, (run.path / "schedule.json").read_bytes()) == ("mine", b"{}")
    assert clusters is not None
    assert not clusters.parent.exists()  # temporary


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_ends_the_campaign_unless_it_is_handled(
    jobs: int, pools: Pools, tmp_path: Path
) -> None:
    def fail(plan: Plan, _: threading.Event) -> None:
        if plan.seed == 1:
            raise HarnessError("no Java")

    pools.does = fail
    with (
        pytest.raises(HarnessError, match="no Java"),
        Campaign(store=Store(tmp_path / "a"), jobs=jobs) as campaign,
    ):
        campaign.perform_all([[planned(1)], [planned(2)]])
    failed: list[tuple[str, str]] = []
    done: list[str] = []
    with Campaign(
        store=Store(tmp_path / "b"),
        jobs=jobs,
        failed=lambda one, error: failed.append((one.label, error.message)),
        done=lambda one: done.append(one.label),
    ) as campaign:
        groups = [[planned(1, name="one"), planned(2)], [planned(3)]]
        performed = [run for group in campaign.perform(groups) for _, run in group]
    assert failed == [("run 1", "no Java")]
    assert sorted(done) == ["run 1", "run 2", "run 3"]
    # A run with a name has a directory, and says itself how far it came.
    assert sorted(seeds([run for run in performed if run])) == [1, 2, 3]


def test_no_run_begins_when_the_time_is_over(pools: Pools, tmp_path: Path) -> None:
    begun: list[int] = []
    pools.does = lambda plan, _: begun.append(plan.seed)
    with Campaign(store=Store(tmp_path), is_over=lambda: len(begun) >= 2) as campaign:
        groups = ([planned(3 * n), planned(3 * n + 1), planned(3 * n + 2)] for n in range(9))
        assert [len(group) for group in campaign.perform(groups)] == [2]
    assert begun == [0, 1]


def test_an_interruption_ends_the_runs_beside_it_and_closes_their_clusters(
    pools: Pools, tmp_path: Path
) -> None:
    both, ended = threading.Barrier(2, timeout=WAIT_S), threading.Event()

    def run(plan: Plan, stop: threading.Event) -> None:
        both.wait()
        if plan.seed == 2:
            assert stop.wait(WAIT_S)
            ended.set()
            raise HarnessError("the run was ended early")

    pools.does = run

    def interrupted() -> None:
        clusters = tmp_path / "clusters"
        with Campaign(store=Store(tmp_path), clusters=clusters, jobs=2) as campaign:
            for _ in campaign.perform([[planned(1)], [planned(2)]]):
                raise Interruption("Ctrl-C")  # in the thread of the caller

    with pytest.raises(Interruption):
        interrupted()
    assert ended.is_set()
    assert sorted(pools.closed) == sorted(pools.opened)
    assert len(pools.closed) == 2
    assert not (tmp_path / "clusters").exists()
