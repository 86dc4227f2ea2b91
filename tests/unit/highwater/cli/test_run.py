"""Where the settings of a run come from: options, a file with a plan, and a story."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from highwater import api
from highwater.cli.app import app
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import External, Plan, Topic, Workload
from highwater.runtime.requested_plan import requested_plan
from highwater.testing.kafka_run import make
from highwater.testing.parametrize import Case

FILE = """
schema = 1
kafka = "4.4.0"
nemesis = ["kill@leader"]
duration_s = 20

[topic]
partitions = 2

[workload]
acks = "1"
rate = 0
"""
PLAN = Plan(
    kafka="4.4.0",
    nemesis=("kill@leader",),
    duration_s=20.0,
    topic=Topic(partitions=2),
    workload=Workload(acks="1", rate=0.0),
)
CASE = Case(kafka="4.4.0", driver="docker", acks="1", min_isr=2, unclean=True, id="4.4.0")


class PerformedError(Exception):
    """Raised with the plans, in place of performing them."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in; nothing is performed."""

    def perform(plans: list[Plan], *_: object, **__: object) -> None:
        raise PerformedError(*plans)

    monkeypatch.setattr(api, "perform", perform)
    monkeypatch.chdir(tmp_path)


def failure(*words: str) -> BaseException:
    error = CliRunner().invoke(app, ["run", *words]).exception
    assert error is not None
    return error


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_a_plan_is_read_from_a_file_and_options_change_it(name: str) -> None:
    text = FILE.encode() if name.endswith("toml") else PLAN.to_json()
    Path(name).write_bytes(text)
    assert failure("--plan", name).args == (PLAN,)
    changed = failure("--plan", name, "--kafka", "3.9.2", "--seed", "5", "--partitions", "4").args
    topic = Topic(partitions=4)
    assert changed == (msgspec.structs.replace(PLAN, kafka="3.9.2", seed=5, topic=topic),)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kafka = ", "plan.toml is no plan"),
        ("schema = 1", "missing required field `kafka`"),
        (FILE.replace("rate", "rates"), "unknown field `rates`"),
    ],
)
def test_a_file_without_a_plan_is_refused(text: str, says: str) -> None:
    Path("plan.toml").write_text(text)
    error = failure("--plan", "plan.toml")
    assert isinstance(error, UsageError)
    assert says in str(error)


@pytest.mark.usefixtures("folder")
def test_the_plan_of_an_external_cluster_is_refused() -> None:
    there = External(inventory="i.toml", cluster_id="abc", brokers=(1,), commands=())
    plan = msgspec.structs.replace(PLAN, driver="external", external=there)
    Path("plan.json").write_bytes(plan.to_json())
    with pytest.raises(
        UsageError, match="cluster abc is external, and you confirmed it for one run only"
    ):
        raise failure("--plan", "plan.json")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [["run", "--acks", "1"], ["app", "--", "cat"]])
def test_runs_until_a_failure_have_one_seed_each(command: list[str]) -> None:
    words = ["--kafka", "4.4.0", "--seed", "5", "--until-failure", "3"]
    performed = CliRunner().invoke(app, [command[0], *words, *command[1:]]).exception
    assert isinstance(performed, PerformedError)
    assert [plan.seed for plan in performed.args] == [5, 6, 7]
    alike = {msgspec.structs.replace(plan, seed=0).to_json() for plan in performed.args}
    assert len(alike) == 1
    with pytest.raises(UsageError, match="exclude each other"):
        raise failure("--repeat", "2", *words)


@pytest.mark.usefixtures("folder")
def test_a_story_ends_by_itself() -> None:
    with pytest.raises(UsageError, match="--for 9s has no effect"):
        raise failure("--kafka", "4.4.0", "--story", "loss", "--for", "9s")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"acks": "all"}, "--acks"),
        ({"keys": 5}, "--keys"),
        ({"transactions": True}, "--transactions"),
        ({"subscribe": 2}, "--subscribe"),
        ({"partitions": 3}, "--partitions"),
        ({"unclean": True}, "--unclean"),
        ({"story": "leader-kill"}, "--story"),
        ({"rate": "max"}, "--rate"),
    ],
)
def test_who_only_reads_takes_no_setting_of_writers(given: dict[str, object], option: str) -> None:
    with pytest.raises(UsageError) as refused:
        requested_plan({"kafka": "4.4.0", "read_only": "orders", **given})
    assert refused.value.message.startswith(f"{option} is not possible with --read-only")
    assert refused.value.hint == f"Leave {option} out."


@pytest.mark.usefixtures("folder")
def test_a_topic_to_read_needs_its_cluster() -> None:
    with pytest.raises(UsageError, match="--read-only orders needs your cluster"):
        raise failure("--read-only", "orders")


def test_a_run_that_only_reads_is_repeated_with_its_own_options() -> None:
    given = {"kafka": "4.4.0", "read_only": "orders", "nemesis": "kill", "consumers": 2, "seed": 7}
    topic = Topic(name="orders", partitions=12, min_insync_replicas=2, config={"retention.ms": "1"})
    external = External(
        inventory="s.toml", cluster_id="theirs", code="c0de", brokers=(1, 2, 3), commands=("kill",)
    )
    plan = msgspec.structs.replace(
        requested_plan(given), driver="external", external=external, topic=topic
    )
    assert plan.workload.producers == 0
    assert plan.command() == (
        "highwater run --kafka 4.4.0 --inventory s.toml --confirm c0de --nemesis kill --for 30s"
        " --consumers 2 --read-only orders --seed 7"
    )


def test_a_test_takes_every_setting_of_a_run() -> None:
    plan = make(
        CASE, nemesis="kill", rate="max", brokers=5, group_protocol="consumer", to=["4.4.0"]
    )
    assert plan == Plan(
        kafka="4.4.0",
        driver="docker",
        brokers=5,
        nemesis=("kill",),
        duration_s=30.0,
        to=("4.4.0",),
        topic=Topic(
            partitions=3,
            replication_factor=5,
            min_insync_replicas=2,
            unclean_leader_election=True,
        ),
        workload=Workload(acks="1", rate=0.0, subscribe=3, group_protocol="consumer"),
    )


def test_the_case_of_a_test_decides_its_release() -> None:
    with pytest.raises(UsageError, match="has no argument 'kafka'"):
        make(CASE, nemesis="kill", kafka="3.9.2")


def test_help_names_the_options_of_a_run_without_options() -> None:
    plan = requested_plan({"kafka": "4.4.0"})
    settings = {name: setting for name, setting in options_of(Plan).items() if setting.default}
    assert settings.pop("unclean").default == "clean"
    assert {name: setting.word(setting.of(plan)) for name, setting in settings.items()} == {
        name: setting.default for name, setting in settings.items()
    }
