"""What is wrong with an inventory is said before anything is hurt; a journal outlives its run."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil
import pytest

from highwater.checkers.run_files import RunFiles, stage
from highwater.cli.external import release_of
from highwater.clusters.core.addresses import Address
from highwater.clusters.external import healing, identity
from highwater.clusters.external.cluster import heal_leftovers
from highwater.clusters.external.healing import unhealed_error
from highwater.clusters.external.identity import _check_release, identify
from highwater.clusters.external.inventory import Command, Inventory
from highwater.clusters.external.journal import (
    ClusterDamage,
    Journal,
    folders_to_heal,
    journal_folder,
    read,
)
from highwater.clusters.external.metadata import ClusterIdentity
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError, UsageError, WaitTimeoutError
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.runs.derived_settings import derived
from highwater.harness.runs.plan import External, Plan, Topic, Workload
from highwater.harness.runs.steps import ROLLING, FaultStep
from highwater.harness.runs.store import Store
from highwater.nemesis.faults.registry import faults
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.preflight import check_plan
from tests.support.free_ports import free_ports

GOOD = """
bootstrap = "127.0.0.1:1"
kafka = "4.3.1"
[commands]
kill = "ssh {host} kill -9 broker-{id}"
start = "ssh {host} start ${HOME}"
copy = "cp -r {host}/{topic}-* {into}"
[brokers.1]
host = "a host"
[brokers.2]
host = "b"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "staging.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_commands_are_filled_and_quoted(tmp_path: Path) -> None:
    inventory = Inventory.read(written(tmp_path, GOOD))
    assert inventory.command("kill", 1).line == "ssh 'a host' kill -9 broker-1"
    assert inventory.command("start", 2).line == "ssh b start ${HOME}"
    copy = inventory.command("copy", 2, topic="highwater-1", into="/a b")
    assert (copy.line, copy.limit_s) == ("cp -r b/highwater-1-* '/a b'", 600.0)
    assert inventory.can("kill", "start")
    assert not inventory.can("pause", "resume")
    with pytest.raises(UsageError, match="no command to pause"):
        inventory.command("pause", 1)


EXAMPLES = sorted((Path(__file__).parents[4] / "docs/examples/inventories").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_inventories_that_can_roll_and_the_page_names_them(path: Path) -> None:
    inventory = Inventory.read(path)
    assert inventory.can("check", "restart")
    for broker in inventory.brokers:
        line = inventory.command("check", broker).line
        assert "{" not in line.replace("{{.State.Running}}", "")  # Docker's own
    page = (path.parents[2] / "external.md").read_text("utf-8")
    assert f"(examples/inventories/{path.name})" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("bootstrap = ", "is not TOML"),
        ('bootstrap = "h:1"', "missing required field `kafka`"),
        (GOOD.replace("kill =", "kil ="), "unknown field `kil`"),
        (GOOD.replace("kafka =", "kafak ="), "kafak"),
        (GOOD.replace("[brokers.1]", "[brokers.one]"), "brokers"),
        (GOOD.partition("[brokers")[0] + "[brokers]", "has no broker"),
        (GOOD.replace("{id}", "{ids}"), r"to kill broker 1 uses \{ids\}"),
        (GOOD.replace("{into}", "here"), "does not use both"),
        ('copied = "paused"' + GOOD, "copied is 'paused'"),
        ('copied = "somehow"' + GOOD, "somehow"),
        ('prefix = "__x"' + GOOD, "topic names cannot begin with '__x'"),
        ("limits = { kill = 0 }" + GOOD, "limit of kill"),
        ("limits = { kil = 1 }" + GOOD, "kil"),
    ],
)
def test_what_is_no_inventory_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "staging.toml" if text is None else written(tmp_path, text)
    with pytest.raises(UsageError, match=message) as caught:
        Inventory.read(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": "nowhere"}, "is not an address"),
        ({"kafka": "4.3"}, "4.3"),
        ({"kafka": "0.10.0.1"}, "no cluster ids"),
        ({"client": {"security.protocol": "tls"}}, "security.protocol cannot be 'tls'"),
        ({"client": {"security.protocol": "ssl", "ssl.ca.location": "/none"}}, "certificates"),
        ({"client": {"security.protocol": "ssl", "ssl.engine.id": "x"}}, "ssl.engine.id"),
        ({"client": {"security.protocol": "SASL_SSL"}}, "sasl.mechanism cannot be ''"),
        (
            {"client": {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}},
            "sasl.username is missing",
        ),
    ],
)
def test_a_cluster_that_cannot_be_met_is_refused(
    tmp_path: Path, change: Mapping[str, object], message: str
) -> None:
    inventory = Inventory.read(written(tmp_path, GOOD))
    with pytest.raises(UsageError, match=message):
        identify(msgspec.structs.replace(inventory, **change), "x")


def test_nobody_at_bootstrap_is_an_error_with_every_address(tmp_path: Path) -> None:
    [port] = free_ports(1)
    inventory = Inventory.read(written(tmp_path, GOOD))
    inventory = msgspec.structs.replace(inventory, bootstrap=f"127.0.0.1:{port}")
    with pytest.raises(HarnessError, match=rf"no broker .* responds: 127.0.0.1:{port}"):
        identify(inventory, "x")


HOMES = {1: Address(host="b1", port=9092), 2: Address(host="b2", port=9092)}


def found(cluster_id: str = "x", homes: Mapping[int, Address] = HOMES) -> ClusterIdentity:
    return ClusterIdentity(
        cluster_id=cluster_id, addresses=homes, topics=frozenset(), fetch_version=18, kraft=True
    )


@pytest.mark.parametrize(
    "other",
    [
        found("y"),
        found(homes={1: HOMES[1]}),
        found(homes={1: HOMES[1], 3: HOMES[2]}),
        found(homes={1: HOMES[1], 2: Address(host="b3", port=9092)}),
        found(homes={1: HOMES[1], 2: Address(host="b2", port=9093)}),
        found(homes={1: HOMES[2], 2: HOMES[1]}),
    ],
)
def test_a_code_changes_with_each_id_and_address(other: ClusterIdentity) -> None:
    assert other.code != found().code
    assert found(homes=dict(reversed(HOMES.items()))).code == found().code


@pytest.mark.parametrize(
    ("confirm", "message"),
    [
        (None, "has the code {}. The code identifies cluster x, brokers 1=b1:9092, 2=b2:9092."),
        ("x", "has the code {}; its id x is not enough"),
        ("12345678", "has the code {}, not 12345678. The code identifies cluster x"),
        ("", "has the code {}, not . The code identifies cluster x"),
    ],
)
def test_only_its_code_confirms_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirm: str | None, message: str
) -> None:
    inventory = Inventory.read(written(tmp_path, GOOD))
    monkeypatch.setattr(identity, "recognise", lambda _: found())
    with pytest.raises(UsageError) as caught:
        identify(inventory, confirm)
    assert message.format(found().code) in caught.value.message
    assert "Kafka's own" not in caught.value.message
    with pytest.raises(UsageError, match="writes to Kafka's own __consumer_offsets and __tran"):
        identify(inventory, confirm, ["__consumer_offsets", "__transaction_state"])
    assert identify(inventory, found().code) == found()


SINCE_4_1 = {kafka.name for kafka in CATALOGUE.values() if kafka.number >= (4, 1)}


@pytest.mark.parametrize(
    ("fetch_version", "kraft", "fitting"),
    [
        (3, False, {"0.10.2.2"}),
        (7, False, {"1.1.1"}),
        (11, False, {"2.4.1"}),
        (15, False, {"3.3.2"}),  # 3.5 and 3.6 are not in the catalogue
        (17, True, {"3.9.0", "3.9.2", "4.0.0", "4.0.1", "4.0.2"}),
        (17, False, {"3.9.2-zk"}),
        (18, True, SINCE_4_1),
        (19, True, SINCE_4_1),
    ],
)
def test_brokers_tell_their_release_by_how_new_a_fetch_they_know(
    fetch_version: int, fitting: set[str], *, kraft: bool
) -> None:
    met = ClusterIdentity(
        cluster_id="x",
        addresses={},
        topics=frozenset(),
        fetch_version=fetch_version,
        kraft=kraft,
    )
    for kafka in CATALOGUE.values():
        if kafka.name in fitting:
            _check_release(kafka, met)
        else:
            with pytest.raises(UsageError, match=f"not Kafka {kafka.name}, but .* or newer"):
                _check_release(kafka, met)


@pytest.mark.parametrize(
    ("line", "limit_s", "message"),
    [
        ("echo no route >&2; exit 7", 10.0, "ended with status 7: .*\nIts output: no route"),
        ("echo thinking; sleep 60", 0.3, "ran longer than 0.3 s: .*\nIts output: thinking"),
        ("no-such-program", 10.0, "ended with status 127: no-such-program"),
    ],
)
def test_a_command_that_fails_or_hangs_says_so(line: str, limit_s: float, message: str) -> None:
    began = time.monotonic()
    with pytest.raises(HarnessError, match="the command to kill broker 2 " + message):
        Command(what="kill broker 2", line=line, limit_s=limit_s).run()
    assert time.monotonic() - began < 20


def test_a_command_may_leave_something_in_the_background(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    line = f"sleep 300 & echo $! >{pid}"
    Command(what="start broker 1", line=line, limit_s=60.0).run()
    left = psutil.Process(int(pid.read_text()))
    assert left.status() != psutil.STATUS_ZOMBIE
    left.kill()


MEMBERS = Workload(subscribe=2)


def plan(**changes: object) -> Plan:
    target = External(
        inventory="a b.toml",
        cluster_id="abc",
        brokers=(0, 7, 8),
        commands=("kill", "pause", "resume", "start"),
    )
    base = Plan(
        kafka="4.3.1",
        driver="external",
        nemesis=("kill@7", "pause"),
        topic=Topic(name="highwater-1"),
        duration_s=9,
        external=target,
    )
    return msgspec.structs.replace(base, **changes)


def test_a_plan_for_it_can_be_kept_and_told() -> None:
    check_plan(plan())
    assert Plan.from_json(plan().to_json()) == plan()
    assert "--inventory 'a b.toml' --confirm abc --nemesis kill@7,pause" in plan().command()
    assert "--cluster" not in plan().command()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nemesis": ("kill@1",)}, "no broker 1"),
        ({"nemesis": ("stop",)}, "no command to stop"),
        ({"nemesis": ("wipe",)}, "files of its brokers are not accessible"),
        ({"nemesis": ("isolate",)}, "no relay"),
        ({"nemesis": ("controller-kill",)}, "controllers are not accessible"),
        ({"nemesis": ("move-leader",), "kafka": "2.8.2-zk"}, "2.8.2-zk|in ZooKeeper"),
        ({"external": None}, "needs an inventory"),
        ({"nemesis": (), "story": "loss"}, "files of its brokers are not accessible"),
        ({"nemesis": (), "story": "rolling-restart"}, "no command to stop"),
        ({"nemesis": (), "story": "cut-off"}, "no relay between its nodes"),
        ({"nemesis": (), "story": "torn-transaction"}, "no relay between its clients"),
        ({"nemesis": (), "story": "expired-positions"}, "its own broker settings"),
        ({"nemesis": (), "story": "too-large"}, "settings of librdkafka"),
        ({"nemesis": (), "story": "unclean"}, "other topics that allow unclean elections"),
        ({"nemesis": (), "story": "share-step-back"}, "moves the coordinators of other groups"),
        (
            {"nemesis": (), "story": "added-partition", "kafka": "3.9.2-zk"},
            "needs ZooKeeper, which is not accessible",
        ),
        ({"nemesis": (), "schedule": {}}, "a replay needs its own broker settings"),
        ({"nemesis": ("move-group-coordinator",), "workload": MEMBERS}, "that Highwater starts"),
        ({"broker_config": {"a": "b"}}, "owner decides the broker settings"),
        ({"wire": True}, "the relay works only"),
        ({"to": ("4.3.1",)}, "only the cluster's owner upgrades it"),
        ({"brokers": 2}, "has 3 brokers"),
        ({"controllers": 3}, "the cluster's owner runs its controllers and ZooKeepers"),
    ],
)
def test_what_commands_cannot_do_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_plan(plan(**changes))


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (MEMBERS, "--subscribe 2"),
        (Workload(subscribe=2, group_protocol="consumer"), "--group-protocol consumer"),
        (Workload(share=2), "--share 2"),
        (Workload(idempotence=True, transactions=True, transform=True), "--transform"),
    ],
)
def test_groups_and_transactions_need_no_setting_of_its_brokers(
    workload: Workload, words: str
) -> None:
    grouped = plan(workload=workload, kafka="4.4.0")
    check_plan(grouped)
    assert words in grouped.command()
    assert (grouped.session_s, grouped.lock_s) == (6, 15), "the least that brokers accept"


@pytest.mark.parametrize("name", ["leader-kill", "added-partition", "earliest-share"])
def test_a_story_that_needs_only_commands_is_available(name: str) -> None:
    story = find_story(name).plan("4.4.0", driver="external")
    target = plan()
    theirs = msgspec.structs.replace(
        story, external=target.external, broker_config={}, topic=story.topic
    )
    check_plan(theirs)
    assert f"--confirm abc --story {name}" in theirs.command()


def test_keys_need_no_setting_of_its_brokers() -> None:
    topic = Topic(name="highwater-1", config=derived(keys=True, tiered=False)[0])
    keyed = plan(workload=Workload(keys=5), topic=topic)
    check_plan(keyed)
    assert "--keys 5" in keyed.command()


@pytest.mark.parametrize("commands", [("restart",), ("start", "stop")])
def test_a_restart_takes_one_command_or_two(commands: tuple[str, ...]) -> None:
    step = FaultStep(fault=ROLLING, at_s=3, lasts_s=3)
    target = External(inventory="s.toml", cluster_id="abc", brokers=(7, 8, 9), commands=commands)
    rolls = plan(nemesis=(), steps=(step,), external=target)
    check_plan(rolls)
    assert rolls.command() == (
        "highwater rolling --kafka 4.3.1 --acks all --min-isr 1 --inventory s.toml --confirm abc"
        " --for 9s --partitions 1"
    )
    check_plan(plan(nemesis=("restart@7", "rolling-restart"), external=target))
    alone = msgspec.structs.replace(target, commands=("start", "kill"))
    with pytest.raises(UsageError, match="no command to restart"):
        check_plan(plan(nemesis=(), steps=(step,), external=alone))


def test_a_release_is_named_once(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert release_of(None, "local", path) == release_of("4.3.1", "external", path) == "4.3.1"
    for words, message in (
        (("3.9.2", "local", path), "names Kafka 4.3.1"),
        ((None, "local", None), "no Kafka release"),
        (("4.3.1", "external", None), "needs an inventory"),
    ):
        with pytest.raises(UsageError, match=message):
            release_of(*words)


def test_every_fault_that_commands_make_has_its_own_undoing() -> None:
    undone = {"kill": "start", "stop": "start", "pause": "resume"}
    able = [one for one in faults().values() if one.commands is not None]
    assert len(able) > 5
    for one in able:
        assert one.commands is not None
        assert {undone[verb] for verb in one.commands & set(undone)} <= one.commands


def entry(path: Path) -> ClusterDamage:
    return ClusterDamage(cluster_id="abc", inventory=str(path), addresses={1: "127.0.0.1:1"})


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_journal_is_on_disk_before_anything_is_hurt_and_gone_when_all_is_whole(
    tmp_path: Path,
) -> None:
    path, cure = tmp_path / "s.toml", Command(what="start broker 1", line="go", limit_s=1.0)
    journal = Journal.locked(journal_folder("abc"), entry(path))
    journal.record_damage(1, (cure,))
    journal.record_topic("highwater-1", tmp_path)
    found = read(journal.folder)
    assert found == journal.entry
    assert found is not None
    assert found.wounds[1].cures == (cure,)
    assert folders_to_heal(path) == [journal.folder]
    assert "  go\n  delete the topic highwater-1" in unhealed_error(found, ["why"]).hint
    journal.record_healed(1)
    journal.record_deleted("highwater-1")
    assert read(journal.folder) is None
    assert folders_to_heal(path) == []
    journal.release()


def test_a_second_run_on_a_cluster_is_refused_and_a_dead_one_is_not(tmp_path: Path) -> None:
    folder = journal_folder("abc")
    script = (
        "import sys, pathlib\nfrom highwater.clusters.external.journal import *\n"
        "j = Journal.locked(pathlib.Path(sys.argv[1]),"
        " ClusterDamage(cluster_id='abc', inventory='', addresses={}))\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(HarnessError, match=f"another run is active .*process {other.pid}"):
            Journal.locked(folder, entry(tmp_path))
        (folder / "lock").write_text('{"pid": 4194305}')  # no process here has that number
        with pytest.raises(HarnessError, match=r"another run is active .*process 4194305"):
            Journal.locked(folder, entry(tmp_path))
        other.kill()
    Journal.locked(folder, entry(tmp_path)).release()


def test_a_guard_is_waited_for_whatever_the_number_of_its_harness_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have got it, or another container has one of that number."""
    journal = Journal.locked(journal_folder("abc"), entry(tmp_path))
    inherited = os.dup(journal.lock)
    journal.release()
    monkeypatch.setattr("highwater.clusters.external.journal._HEALING_S", 0.2)
    with pytest.raises(WaitTimeoutError, match="the guard of an ended run to heal the cluster"):
        Journal.locked(journal.folder, entry(tmp_path))
    os.close(inherited)
    Journal.locked(journal.folder, entry(tmp_path)).release()


def test_a_broken_journal_is_no_traceback(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    folder = journal_folder("a/b")
    folder.mkdir(parents=True)
    (folder / "open.json").write_text("{")
    with pytest.raises(HarnessError, match="cannot be read"):
        heal_leftovers(path)


def test_passwords_need_no_socket_of_ours_in_the_clear() -> None:
    assert Address.parse("h:1").dial is dialer({})
    wanted = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    assert dialer({**wanted, "sasl.username": "u", "sasl.password": "p"}) is not dialer({})


@pytest.mark.parametrize(("copies", "reads"), [(True, ""), (False, ""), (True, "orders")])
def test_missing_disks_are_no_reason_where_nobody_can_copy_them(
    tmp_path: Path, *, copies: bool, reads: str
) -> None:
    target = plan().external
    assert target is not None
    verbs = (*target.commands, "copy") if copies else target.commands
    wanted = plan(external=msgspec.structs.replace(target, commands=verbs), read_only=reads)
    case = RunFiles.of(Store(tmp_path / "store").create(wanted, now=datetime.now(UTC)), "only")
    stage(case, tmp_path / "staging")
    assert any("no disk was compared" in reason for reason in case.reasons) == (
        copies and not reads
    )
    assert case.copyless != (copies and not reads)


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_restart_is_repeated_only_if_the_broker_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, comes_up: bool
) -> None:
    """One that is under way would only be lengthened."""
    repeated = tmp_path / "repeated"
    line = f"touch {repeated}"
    cure = Command(what="restart broker 1", verb="restart", line=line, limit_s=9)
    monkeypatch.setattr(healing, "answers", lambda _: False)
    monkeypatch.setattr(healing.ClusterHealer, "_comes_up", lambda *_: comes_up)
    monkeypatch.setattr(healing.ClusterHealer, "_await_up", lambda *_: None)
    [port] = free_ports(1)
    addresses = {1: Address(host="127.0.0.1", port=port)}
    healing.ClusterHealer(CATALOGUE["4.3.1"], addresses, {}).heal(1, (cure,))
    assert repeated.exists() is not comes_up
