"""An external cluster is hurt, healed for certain, and left as it was.

``HIGHWATER_KILL_POINTS`` is at how many random moments a run is killed beside, on each release.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import admin as kafka_admin

from highwater.cli.external import onto
from highwater.clusters.external.cluster import open_cluster
from highwater.clusters.external.journal import journal_folder, read
from highwater.harness.base.errors import HarnessError, HighwaterError, UsageError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.cluster_facts import POSITIONS
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.runtime.requested_plan import requested_plan
from highwater.runtime.runner import execute
from tests.kafka.external_cluster import Landlord, landlord
from tests.kafka.others_producers import writing
from tests.support.commands import finish, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
OLD = pytest.param("0.10.2.2", marks=pytest.mark.nightly)
APPS = Path(__file__).parents[2] / "docs/examples/apps"
LIKE_KAFKAS = ("1.0.2", "3.9.2", "3.9.2-zk")
"""One that does not tell the sources of settings, one of another line, one on ZooKeeper."""
KAFKA: Any = kafka_admin
POINTS = int(os.environ.get("HIGHWATER_KILL_POINTS", "0"))
RUN = """
import signal, sys, threading
from pathlib import Path
from highwater.harness.base.errors import HighwaterError
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.cli.external import onto
from highwater.runtime.runner import execute
from highwater.harness.runs.store import Store
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
work = Workload(producers=1, rate=100)
plan = Plan(kafka="", nemesis=("pause",), duration_s=60, topic=Topic(partitions=2), workload=work)
try:
    plan = onto(plan, Path(sys.argv[1]), sys.argv[2])
    execute(plan, Store(Path(sys.argv[3])), stop=threading.Event())
except HighwaterError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@pytest.fixture(scope="module", params=[MODERN, OLD])
def theirs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Landlord]:
    with landlord(request.param, tmp_path_factory.mktemp("theirs")) as found:
        yield found


@pytest.fixture
def positions(theirs: Landlord) -> Iterator[str]:
    """Kafka's topic of positions, which goes after the test as if nobody had made it."""
    yield POSITIONS
    if POSITIONS in theirs.topics:
        admin = KAFKA.AdminClient({"bootstrap.servers": theirs.cluster.bootstrap})
        admin.delete_topics([POSITIONS])[POSITIONS].result(30)
    await_condition(lambda: theirs.topics, lambda seen: not seen, what="it to go", limit_s=30)
    require_whole(theirs)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def run(theirs: Landlord, store: Path) -> "subprocess.Popen[str]":
    """A run that pauses brokers for a minute, unjudged, as a process that can be killed."""
    words = (theirs.inventory(), theirs.code, store)
    return start(*words, program=("-c", RUN))


def require_whole(theirs: Landlord) -> None:
    """Nothing is hurt, nothing of ours is there, and no topic of Kafka's own was made."""
    assert theirs.states == {"running"}
    assert theirs.topics == frozenset()
    assert read(journal_folder(theirs.cluster_id)) is None
    await_condition(
        lambda: [*(theirs.cluster.directory / "replicas").glob("*/highwater-*-[01]")],
        lambda left: not left,
        what="our topic's directories to go",
        limit_s=60,
    )


@pytest.mark.parametrize("theirs", [MODERN], indirect=True)
def test_a_random_run_is_judged_with_disks_and_leaves_all_as_it_was(
    theirs: Landlord, tmp_path: Path
) -> None:
    faults = "kill,pause,move-leader,set-segment"
    where = ("--inventory", theirs.inventory(), "--confirm", theirs.code)
    work = ("--store", tmp_path, "--partitions", "2", "--producers", "1", "--rate", "100")
    process = start("run", *where, *work, "--nemesis", faults, "--for", "12s", "--json")
    code, out, err = finish(process)
    judged = json.loads(out)
    assert code == {"valid": 0, "invalid": 1}[judged["verdict"]]
    assert not [line for line in err.splitlines() if not line.startswith((MODERN, "judge: "))]
    assert judged["acknowledged"] > 500
    [topic] = {path.name for path in tmp_path.glob("latest/replicas/1/highwater-*-0")}
    for broker in (1, 2, 3):
        assert list(tmp_path.glob(f"latest/replicas/{broker}/{topic}/*.log"))
    require_whole(theirs)


@pytest.mark.nightly
@pytest.mark.parametrize("theirs", [MODERN], indirect=True)
@pytest.mark.parametrize(
    ("program", "form"),
    [
        ("right", ()),
        ("to_database", ("--in", "orders")),
        ("writes_orders", ("--out", "orders", "--match", "key")),
    ],
)
def test_a_program_alone_is_hit_and_nothing_of_its_run_stays(
    theirs: Landlord, positions: str, tmp_path: Path, program: str, form: tuple[str, ...]
) -> None:
    where = ("--bootstrap", theirs.cluster.bootstrap, "--store", tmp_path, "--json")
    faults = ("--nemesis", "app-stop", "--for", "5s", "--partitions", "1")
    text = (APPS / f"{program}.py").read_text().splitlines()
    dynamic = "\n".join(line for line in text if "group.instance.id" not in line)  # it leaves
    process = start("app", *form, *where, *faults, "--", sys.executable, "-c", dynamic)
    code, out, _ = finish(process)
    judged = json.loads(out)
    assert (code, judged["verdict"]) == (0, "valid"), out
    assert judged["happened"].startswith("app-stop ")
    assert not [*tmp_path.glob("latest/replicas/*")], "its disks are not accessible"
    admin = KAFKA.AdminClient({"bootstrap.servers": theirs.cluster.bootstrap})
    assert admin.list_consumer_groups().result(30).valid == []
    assert theirs.topics == {positions}, "whoever reads the output makes it, as every consumer"


def described(theirs: Landlord, topic: str) -> str:
    """All that the admin API tells of a topic."""
    admin = KAFKA.AdminClient({"bootstrap.servers": theirs.cluster.bootstrap})
    resource = KAFKA.ConfigResource("topic", topic)
    configs = admin.describe_configs([resource])[resource].result(30)
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return repr(
        (
            sorted((name, entry.value, entry.source) for name, entry in configs.items()),
            [(number, state.replicas) for number, state in sorted(partitions.items())],
        )
    )


@pytest.mark.parametrize(
    "theirs",
    [MODERN, *(pytest.param(kafka, marks=pytest.mark.nightly) for kafka in LIKE_KAFKAS)],
    indirect=True,
)
def test_a_topic_is_made_like_theirs_which_is_only_read(theirs: Landlord, tmp_path: Path) -> None:
    own = {"min.insync.replicas": "2", "segment.bytes": "2097152", "retention.ms": "60000"}
    theirs.cluster.create_topic("orders", [[3, 1], [1, 2]], own)
    before = described(theirs, "orders")
    where = (theirs.inventory(), theirs.code)
    with pytest.raises(UsageError, match="no topic order,") as caught:
        onto(CALM, *where, like="order")
    assert "Did you mean orders?" in str(caught.value.hint)
    seen: list[str] = []
    given = {"unclean.leader.election.enable": "true"}
    plan = onto(CALM, *where, like="orders", given=given)

    def look(step: str) -> None:
        if not seen and step.startswith("running"):
            seen.append(described(theirs, plan.topic.name))

    execute(plan, Store(tmp_path), stop=threading.Event(), progress=look)
    assert described(theirs, "orders") == before
    assert plan.topic.like is not None
    assert plan.topic.like.overrides == ("min.insync.replicas", "segment.bytes")
    assert set(plan.topic.like.not_taken) == {"retention.ms", "unclean.leader.election.enable"}
    [made] = seen
    for name, value in (own | given | {"retention.ms": "-1"}).items():
        assert f"({name!r}, {value!r}, " in made
    assert made.endswith("[(0, [3, 1]), (1, [1, 2])])")
    admin = KAFKA.AdminClient({"bootstrap.servers": theirs.cluster.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(30)
    await_condition(
        lambda: theirs.topics, lambda topics: not topics, what="their topic to go", limit_s=60
    )
    require_whole(theirs)
    again = onto(CALM, *where, like=str(tmp_path / "latest/plan.json"))
    assert again.topic.like is not None
    assert again.topic.like.replicas == plan.topic.like.replicas
    assert again.topic.settings() == plan.topic.settings()


@pytest.fixture
def payments(theirs: Landlord, positions: str) -> Iterator[Any]:
    """The administrator of their topics, of which only one may be read; a group has committed.

    No earlier topic had their names: a broker that restarts gives a topic the settings of a deleted
    one (docs/findings/inherited-settings.md).
    """
    admin = KAFKA.AdminClient({"bootstrap.servers": theirs.cluster.bootstrap})
    made = [
        KAFKA.NewTopic("payments", 2, 3, config={"min.insync.replicas": "2"}),
        KAFKA.NewTopic("accounts", 1, 3, config={"cleanup.policy": "compact"}),
    ]
    for future in admin.create_topics(made).values():
        future.result(30)
    with pytest.raises(UsageError, match=f"sees no topic {positions}, and the brokers would"):
        onto_read_only(theirs, "payments")
    settings = {"bootstrap.servers": theirs.cluster.bootstrap, "group.id": "billing"}
    billing = Consumer(settings)
    await_condition(
        lambda: billing.commit(offsets=[TopicPartition("payments", 0, 0)], asynchronous=False),
        what="a group of theirs to commit",
        limit_s=60,
        passing=(KafkaException,),
    )
    billing.close()
    yield admin
    for future in admin.delete_topics([topic.topic for topic in made]).values():
        future.result(30)


def onto_read_only(theirs: Landlord, topic: str) -> Plan:
    plan = requested_plan({"kafka": MODERN, "read_only": topic, "nemesis": "kill"})
    return onto(plan, theirs.inventory(), theirs.code)


def on_brokers(admin: Any) -> dict[str, Any]:  # noqa: ANN401 - KAFKA is untyped
    """Return topics with their settings, the ends of their logs, and groups with their offsets."""
    metadata = admin.list_topics(timeout=10)
    parts = [
        TopicPartition(name, part)
        for name, topic in metadata.topics.items()
        for part in topic.partitions
    ]
    ends = admin.list_offsets(dict.fromkeys(parts, KAFKA.OffsetSpec.latest()))
    kind = KAFKA.ConfigResource.Type.TOPIC
    configs = admin.describe_configs([KAFKA.ConfigResource(kind, name) for name in metadata.topics])
    [offsets] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions("billing")]
    ).values()
    return {
        "ends": {(at.topic, at.partition): end.result(30).offset for at, end in ends.items()},
        "settings": {
            resource.name: {name: entry.value for name, entry in future.result(30).items()}
            for resource, future in configs.items()
        },
        "groups": [group.group_id for group in admin.list_consumer_groups().result().valid],
        "offsets": [(at.partition, at.offset) for at in offsets.result(30).topic_partitions],
    }


@pytest.mark.parametrize("theirs", [MODERN], indirect=True)
def test_a_topic_that_is_only_read_gets_not_a_byte(
    theirs: Landlord,
    payments: Any,  # noqa: ANN401 - KAFKA is untyped
    tmp_path: Path,
) -> None:
    for topic, message in (
        ("payment", "there is no topic payment, or"),
        (POSITIONS, f"{POSITIONS} is an internal topic of Kafka"),
        ("accounts", "topic accounts is compacted"),
    ):
        with pytest.raises(UsageError, match=message):
            onto_read_only(theirs, topic)
    before = on_brokers(payments)
    with contextlib.closing(
        open_cluster(theirs.inventory(), theirs.code, tmp_path / "opened")
    ) as opened:
        for change in (
            partial(opened.configure, "payments", {"retention.ms": "1"}),
            partial(opened.add_partitions, "payments", {2: [1, 2, 3]}),
            partial(opened.reassign, "payments", 0, [1]),
            partial(opened.move_leader, "payments", 0, 1),
            partial(opened.delete_records, "payments", 0, 0),
            partial(opened.delete_topic, "payments"),
        ):
            with pytest.raises(HarnessError, match="cannot be changed, because this run did not"):
                change()
    where = ("--inventory", theirs.inventory(), "--confirm", theirs.code, "--store", tmp_path)
    faults = ("--nemesis", "kill,pause", "--for", "8s", "--seed", "4", "--json")
    with writing(theirs.cluster.bootstrap, "payments") as [owner]:
        code, out, err = finish(start("run", "--read-only", "payments", *where, *faults))
    after, judged = on_brokers(payments), json.loads(out)
    assert (code, judged["verdict"]) == (0, "valid"), judged["reasons"] + [err]
    assert judged["read"] == judged["received"] > 300
    grown = {at: end - before["ends"][at] for at, end in after["ends"].items()}
    assert owner.counts["failed"] == 0
    assert sum(grown.values()) == owner.counts["written"]
    assert {topic for (topic, _), more in grown.items() if more} == {"payments"}
    assert {**after, "ends": 0} == {**before, "ends": 0}
    assert not [*tmp_path.glob("latest/replicas/*")]


@pytest.mark.parametrize(
    "theirs", [pytest.param("0.10.2.2", marks=pytest.mark.nightly)], indirect=True
)
def test_old_brokers_do_not_tell_what_a_topic_is_like(theirs: Landlord) -> None:
    with pytest.raises(UsageError, match="do not return a topic's settings"):
        onto(PLAN, theirs.inventory(), theirs.code, like="orders")


def test_the_doctor_tells_what_to_confirm_and_hurts_nothing(theirs: Landlord) -> None:
    path = theirs.inventory(commands={"pause": ""})
    code, out, _ = finish(start("doctor", "--inventory", path, "--json"))
    cluster, commands, *brokers = json.loads(out)
    assert (code, theirs.cluster_id in cluster["found"], len(brokers)) == (0, True, 3)
    assert f"--confirm {theirs.code} " in cluster["found"]
    assert commands["hint"] == "Faults that need pause are not available."
    theirs.pid(2).rename(theirs.directory / "aside")
    code, out, _ = finish(start("doctor", "--inventory", path))
    (theirs.directory / "aside").rename(theirs.pid(2))
    assert (code, "MISSING" in out) == (4, True)
    require_whole(theirs)


def await_wound(theirs: Landlord, process: "subprocess.Popen[str]") -> None:
    """Wait until a broker is paused by the run, as its machine sees it."""

    def look() -> set[str]:
        if process.poll() is not None:
            raise AssertionError(f"it ended early: {process.communicate()}")
        return theirs.states

    await_condition(look, lambda seen: "paused" in seen, what="a broker to be paused", limit_s=120)


@pytest.mark.parametrize(
    "guarded",
    [
        pytest.param(True, id="guarded"),
        pytest.param(False, id="unguarded", marks=pytest.mark.nightly),
    ],
)
def test_what_a_killed_run_left_is_healed(
    theirs: Landlord, tmp_path: Path, *, guarded: bool
) -> None:
    process = run(theirs, tmp_path)
    await_wound(theirs, process)
    code, _, err = finish(run(theirs, tmp_path / "second"))
    assert code == 1
    assert f"another run is active on this cluster (process {process.pid})" in err
    guards = psutil.Process(process.pid).children()
    assert any("highwater.clusters.external.guard" in " ".join(one.cmdline()) for one in guards)
    if not guarded:
        for guard in guards:
            guard.kill()
    process.send_signal(signal.SIGKILL)
    finish(process)
    if not guarded:
        assert read(journal_folder(theirs.cluster_id)) is not None
        code, out, _ = finish(start("heal", "--inventory", theirs.directory / "staging.toml"))
        assert (code, "is healed" in out, "is deleted" in out) == (0, True, True)
    _, alive = psutil.wait_procs(guards, timeout=120)
    assert not alive
    require_whole(theirs)


@pytest.mark.skipif(not POINTS, reason="HIGHWATER_KILL_POINTS says at how many moments")
@pytest.mark.timeout(60 + 90 * POINTS)
def test_a_kill_at_any_moment_leaves_nothing(theirs: Landlord, tmp_path: Path) -> None:
    dice = random.Random(POINTS)  # noqa: S311 - a repeatable choice of moments
    path = theirs.inventory()
    for number in range(POINTS):
        process = run(theirs, tmp_path / str(number))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.0, 15.0))  # the moment is the experiment
        family = psutil.Process(process.pid).children(recursive=True)
        if number % 2:
            for one in family:
                one.kill()
        process.kill()
        finish(process)
        if number % 2:
            assert finish(start("heal", "--inventory", path))[0] == 0
        _, alive = psutil.wait_procs(family, timeout=120)
        assert not alive
        require_whole(theirs)


def test_an_interrupted_run_heals_before_it_ends(theirs: Landlord, tmp_path: Path) -> None:
    process = run(theirs, tmp_path)
    await_wound(theirs, process)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, "interrupted" in err) == (1, True)
    require_whole(theirs)


@pytest.mark.nightly  # by day without brokers: test_interruptions.py
@pytest.mark.parametrize("theirs", [MODERN], indirect=True)
def test_a_second_interruption_does_not_start_a_broker_again(
    theirs: Landlord, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    start_line = f"echo {{id}} >>{starts}; {theirs.commands['start']}"
    words = (theirs.inventory(commands={"start": start_line}), theirs.code, tmp_path / "store")
    process = start(*words, program=("-c", RUN.replace('"pause"', '"kill"')))
    await_condition(
        lambda: theirs.states,
        lambda seen: "down" in seen,
        what="a broker to be killed",
        limit_s=120,
    )
    begun = starts.read_text() if starts.exists() else ""
    process.send_signal(signal.SIGINT)
    await_condition(
        lambda: starts.read_text() if starts.exists() else "",
        lambda seen: len(seen) > len(begun),
        what="the broker's healing to begin",
        limit_s=120,
    )
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, "interrupted" in err) == (1, True)
    assert "Ctrl-C: before the end, broker" in err
    assert len(starts.read_text()) == len(begun) + len("1\n")
    require_whole(theirs)


PLAN = Plan(
    kafka="",
    nemesis=("pause",),
    duration_s=12,
    topic=Topic(partitions=2),
    workload=Workload(producers=1, rate=100),
)
CALM = msgspec.structs.replace(PLAN, nemesis=(), duration_s=0)


@pytest.mark.parametrize("theirs", [MODERN], indirect=True)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka": "1.1.1"}, "the brokers are not Kafka 1.1.1"),
        ({"bootstrap": "127.0.0.1:1"}, "no broker of the cluster responds"),
        ({"commands": {"check": "echo no way in; exit 9"}}, "Its output: no way in"),
        pytest.param(
            {"commands": {"pause": "echo nobody >&2; exit 3"}},
            "ended with status 3",
            marks=pytest.mark.nightly,  # by day without brokers: unit/clusters/external
        ),
        ({"commands": {"pause": "sleep 60"}, "limits": {"pause": 1}}, "ran longer than 1 s"),
        pytest.param(
            {"commands": {"pause": "true"}}, "the broker still responds", marks=pytest.mark.nightly
        ),
        ({"commands": {"copy": "false {topic} {into}"}}, "the command to copy broker 1"),
    ],
)
def test_what_goes_wrong_is_told_and_nothing_stays_hurt(
    theirs: Landlord, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = theirs.inventory(**changes)
    plan = CALM if "copy" in message else PLAN
    with pytest.raises(HighwaterError) as caught:
        execute(onto(plan, path, theirs.code), Store(tmp_path), stop=threading.Event())
    assert message in str(caught.value)
    require_whole(theirs)


@pytest.mark.parametrize("confirm", [None, "another", "its id"])
def test_a_cluster_that_was_not_confirmed_is_left_alone(
    theirs: Landlord, confirm: str | None
) -> None:
    confirm = theirs.cluster_id if confirm == "its id" else confirm
    with pytest.raises(UsageError, match=f"code {theirs.code}.*cluster {theirs.cluster_id}, brok"):
        onto(PLAN, theirs.inventory(), confirm)
    require_whole(theirs)
