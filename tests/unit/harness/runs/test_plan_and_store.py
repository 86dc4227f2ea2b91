"""Plans and runs come back as they were written, or say why not."""

import errno
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Run, RunStatus, Store
from highwater.harness.runs.verdict import Ledger
from highwater.nemesis.faults.registry import faults

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_plan_comes_back_as_it_was() -> None:
    plan = Plan(
        kafka="0.10.2.2",
        nemesis=("kill",),
        duration_s=12.5,
        topic=Topic(partitions=7, unclean_leader_election=True, config={"segment.bytes": "1000"}),
        workload=Workload(acks="1", rate=0),
    )
    assert Plan.from_json(plan.to_json()) == plan


def test_a_command_repeats_every_option_that_is_not_at_its_default() -> None:
    plan = Plan(
        kafka="4.3.1",
        brokers=5,
        nemesis=("kill",),
        duration_s=2.5,
        topic=Topic(partitions=3, replication_factor=5, unclean_leader_election=True),
        workload=Workload(rate=0, delivery_timeout_s=5, idempotence=True),
    )
    assert plan.command() == (
        "highwater run --kafka 4.3.1 --acks all --min-isr 1 --unclean --nemesis kill --for 2.5s"
        " --rate max --partitions 3 --brokers 5 --delivery-timeout 5s --idempotence --seed 0"
    )


OLDER = Plan(kafka="4.4.0", nemesis=("kill",), duration_s=60)


@pytest.mark.parametrize(
    ("of", "added", "says"),
    [
        ("", {"controllers": 3}, "--controllers 3"),
        (
            "",
            {"trace_flushes": True, "log_dirs": 2, "racks": 3},
            "--trace-flushes --log-dirs 2 --racks 3",
        ),
        (
            "",
            {"client": "java:3.9.2", "reader_client": "aiokafka"},
            "--client java:3.9.2 --reader-client aiokafka",
        ),
        (
            "workload",
            {"subscribe": 3, "group_protocol": "consumer", "share": 2},
            "--subscribe 3 --share 2 --group-protocol consumer",
        ),
    ],
)
def test_a_plan_of_before_a_setting_has_its_default(
    of: str, added: dict[str, Any], says: str
) -> None:
    changed = {of: msgspec.structs.replace(OLDER.workload, **added)} if of else added
    plan = msgspec.structs.replace(OLDER, **changed)
    assert says in plan.command()
    assert Plan.from_json(plan.to_json()) == plan
    older = msgspec.json.decode(OLDER.to_json())
    for name in added:
        del (older[of] if of else older)[name]
        assert f"--{name.replace('_', '-')}" not in OLDER.command()
    assert Plan.from_json(msgspec.json.encode(older)) == OLDER


@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        (Workload(), {"a": "1"}),
        (
            Workload(subscribe=1),
            {
                "a": "1",
                "offsets.topic.replication.factor": "2",
                "transaction.state.log.replication.factor": "2",
            },
        ),
    ],
)
def test_every_broker_holds_the_topics_of_coordinators_that_are_used(
    workload: Workload, settings: dict[str, str]
) -> None:
    plan = Plan(kafka="4.3.1", brokers=2, workload=workload, broker_config={"a": "1"})
    assert plan.broker_settings() == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a plan"),
        (b"{", "not a plan"),
        (b'{"schema": 99, "kafka": "4.3.1"}', "schema 99"),
        (b'{"schema": 1}', "broken"),
        (b'{"schema": 1, "kafka": "4.3.1", "colour": "red"}', "broken"),
        (b'{"schema": 1, "kafka": 4}', "broken"),
    ],
)
def test_a_broken_plan_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Plan.from_json(text)


def test_a_store_makes_runs_and_points_to_the_latest(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    first = store.create(Plan(kafka="4.3.1", story="loss"), now=NOW)
    second = store.create(Plan(kafka="4.3.1", nemesis=("kill",)), now=NOW)
    assert first.name.startswith("20260102T030405-4.3.1-loss-")
    assert (tmp_path / "store" / "latest").resolve() == second.path.resolve()
    assert sorted(store.names()) == sorted([first.name, second.name])
    assert store.open(first.name).plan().story == "loss"
    assert store.open("latest").plan().nemesis == ("kill",)
    assert second.status() == RunStatus(phase="booting")


def test_a_run_of_every_fault_has_a_name_that_file_systems_take(tmp_path: Path) -> None:
    run = Store(tmp_path).create(Plan(kafka="4.3.1", nemesis=tuple(faults())), now=NOW)
    assert run.path.is_dir()
    assert len(run.name) < 120


def test_a_missing_run_names_those_there_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.create(Plan(kafka="4.3.1"), now=NOW)
    with pytest.raises(StoreError) as refused:
        store.open("nowhere")
    assert run.name in refused.value.hint


def test_an_unwritable_store_is_a_clear_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StoreError, match="cannot be written") as refused:
        Store(blocker).create(Plan(kafka="4.3.1"), now=NOW)
    assert "--store" in refused.value.hint


@pytest.mark.parametrize("last", ["plan.json", "status.json"])
def test_nobody_meets_a_run_that_is_half_made(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill -9 leaves it, whatever was written last."""

    class KilledError(BaseException):
        pass

    def write(run: Run, name: str, text: bytes) -> Path:
        path = really(run, name, text)
        assert not store.names()
        assert not (store.root / "cell").exists()
        if name == last:
            raise KilledError
        return path

    really, store = Run.write, Store(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Run, "write", write)
        with pytest.raises(KilledError):
            store.create(Plan(kafka="4.3.1"), now=NOW, name="cell")
    run = store.create(Plan(kafka="4.3.1"), now=NOW, name="cell")
    assert store.names() == ["cell"]
    assert run.status() == RunStatus(phase="booting")


def test_a_name_that_is_taken_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create(Plan(kafka="4.3.1", seed=1), now=NOW, name="cell")
    with pytest.raises(StoreError, match="not empty"):
        store.create(Plan(kafka="4.3.1", seed=2), now=NOW, name="cell")
    assert store.open("cell").plan().seed == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell", "latest"]


def test_an_unjudged_run_says_how_to_judge_it(tmp_path: Path) -> None:
    run = Store(tmp_path).create(Plan(kafka="4.3.1"), now=NOW)
    with pytest.raises(StoreError, match="was not judged: it is booting") as refused:
        run.verdict()
    assert "highwater check" in refused.value.hint


def test_a_small_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    run = Store(tmp_path).create(Plan(kafka="4.3.1"), now=NOW)
    run.write_struct("status.json", RunStatus(phase="frozen", quiesced=True))
    assert json.loads((run.path / "status.json").read_text())["phase"] == "frozen"
    assert not list(run.path.glob("*.partial"))


def test_a_ledger_that_does_not_balance_says_where() -> None:
    books = {"failed": 1, "unknown": 2, "read": 6, "lost": 1, "unseen": 0}
    assert Ledger(sent=10, acknowledged=7, **books).errors() == []
    assert len(Ledger(sent=11, acknowledged=7, **books).errors()) == 1
    assert len(Ledger(sent=10, acknowledged=8, **books).errors()) == 2


def test_a_path_that_brokers_would_split_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    now = datetime(2026, 11, 26, tzinfo=UTC)
    with pytest.raises(UsageError, match="a,b has a comma"):
        Store(tmp_path).create(Plan(kafka="4.4.0"), now=now, name="a,b")
    with pytest.raises(UsageError, match="has a comma"):
        Store(tmp_path / "x,y").create(Plan(kafka="4.4.0"), now=now)
    assert [*tmp_path.iterdir()] == []


def test_groups_are_in_the_brokers_settings() -> None:
    group = Workload(subscribe=3, group_protocol="consumer", share=2)
    settings = msgspec.structs.replace(OLDER, workload=group).broker_settings()
    assert settings["offsets.topic.replication.factor"] == "3"
    assert settings["share.coordinator.state.topic.replication.factor"] == "3"
    assert settings["group.consumer.session.timeout.ms"] == "2000"
    assert settings["group.share.record.lock.duration.ms"] == "5000"
    classic = msgspec.structs.replace(OLDER, workload=Workload(subscribe=3))
    assert not [name for name in classic.broker_settings() if name.startswith("group.")]


def test_a_run_that_latest_cannot_name_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)

    def full(_: Store, name: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", name)

    monkeypatch.setattr(Store, "_point_latest", full)
    with pytest.raises(StoreError, match="No space left"):
        store.create(Plan(kafka="4.4.0"), now=datetime.now(UTC), name="r")
    assert not list(tmp_path.iterdir())
