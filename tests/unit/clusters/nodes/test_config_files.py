"""What a cluster writes and reads beside its brokers: settings, last words, frozen replicas."""

import errno
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from highwater.clusters.brokers import freeze
from highwater.clusters.core import addresses
from highwater.clusters.core.addresses import (
    Address,
    AddressGroup,
    EnsemblePorts,
    require_free,
)
from highwater.clusters.nodes import config_files, kraft_features
from highwater.clusters.nodes.layout import Layout, disk_errors
from highwater.clusters.nodes.node import failure_lines
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import release

if TYPE_CHECKING:
    from highwater.clusters.nodes.site import Site

HERE = Address(host="127.0.0.1", port=9092)
THERE = Address(host="127.0.0.1", port=2181)


def settings(
    name: str, inside: Address = HERE, advertised: Address | None = None, **overrides: str
) -> dict[str, str]:
    return config_files.broker(
        release(name),
        7,
        public=HERE,
        inside=inside,
        advertised=advertised or inside,
        log_directories=[Path("/data/7")],
        coordination={100: THERE},
        overrides={key.replace("_", "."): value for key, value in overrides.items()},
    )


def test_a_broker_knows_itself_and_its_coordination() -> None:
    old, new = settings("0.10.2.2"), settings("4.3.1")
    assert (old["broker.id"], old["zookeeper.connect"]) == ("7", "127.0.0.1:2181")
    assert (new["node.id"], new["controller.quorum.voters"]) == ("7", "100@127.0.0.1:2181")
    assert "zookeeper.connect" not in new
    for each in (old, new):
        assert each["listeners"] == "PLAINTEXT://127.0.0.1:9092"
        assert each["log.dirs"] == "/data/7"
        assert each["unclean.leader.election.enable"] == "false"


def test_in_a_container_peers_and_clients_have_a_listener_each() -> None:
    found = settings("0.10.2.2", inside=Address(host="172.18.0.11", port=9093))
    assert found["listeners"] == "EXTERNAL://172.18.0.11:9092,INTERNAL://172.18.0.11:9093"
    assert found["advertised.listeners"] == "EXTERNAL://127.0.0.1:9092,INTERNAL://172.18.0.11:9093"
    assert found["inter.broker.listener.name"] == "INTERNAL"


def test_on_the_wire_peers_are_told_of_another_address_than_clients() -> None:
    wire = Address(host="127.0.0.1", port=40_000)
    found = settings("0.10.2.2", inside=Address(host="127.0.0.1", port=9093), advertised=wire)
    assert found["listeners"] == "EXTERNAL://127.0.0.1:9092,INTERNAL://127.0.0.1:9093"
    assert found["advertised.listeners"] == "EXTERNAL://127.0.0.1:9092,INTERNAL://127.0.0.1:40000"
    one = settings("0.9.0.1", advertised=wire)  # and before 0.10.2 everybody is
    assert one["listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert one["advertised.listeners"] == "PLAINTEXT://127.0.0.1:40000"


@pytest.mark.parametrize(("name", "tells"), [("3.7.2", False), ("3.9.2", True), ("4.3.1", True)])
def test_a_controller_on_the_wire_tells_its_address_where_it_may(name: str, tells: bool) -> None:
    wire = Address(host="127.0.0.1", port=40_000)
    found = config_files.controller(
        release(name), 100, THERE, voters={100: wire}, log_directory=Path("/data"), overrides={}
    )
    assert found["listeners"] == "CONTROLLER://127.0.0.1:2181"
    assert found["controller.quorum.voters"] == "100@127.0.0.1:40000"
    assert found.get("advertised.listeners") == ("CONTROLLER://127.0.0.1:40000" if tells else None)


def test_a_quorum_is_known_to_every_broker_and_controller() -> None:
    voters = {id_: Address(host=f"127.0.0.{id_ - 95}", port=2181) for id_ in (100, 101, 102)}
    found = config_files.controller(
        release("4.4.0"),
        101,
        voters[101],
        voters=voters,
        log_directory=Path("/data"),
        overrides={},
    )
    assert (found["node.id"], found["listeners"]) == ("101", "CONTROLLER://127.0.0.6:2181")
    quorum = "100@127.0.0.5:2181,101@127.0.0.6:2181,102@127.0.0.7:2181"
    assert found["controller.quorum.voters"] == quorum
    kraft, zookeeper = (
        config_files.broker(
            release(name),
            1,
            public=HERE,
            inside=HERE,
            advertised=HERE,
            log_directories=[Path("/data/1")],
            coordination=voters,
            overrides={},
        )
        for name in ("4.4.0", "2.8.2")
    )
    assert kraft["controller.quorum.voters"] == quorum
    assert zookeeper["zookeeper.connect"] == "127.0.0.5:2181,127.0.0.6:2181,127.0.0.7:2181"


def test_zookeepers_of_an_ensemble_know_each_other_and_one_alone_nobody() -> None:
    alone = config_files.zookeeper(THERE, directory=Path("/data"))
    assert not [name for name in alone if name.startswith("server.")]
    assert "syncLimit" not in alone
    servers = {
        id_: config_files.server_entry(f"127.0.0.{id_ - 95}", EnsemblePorts())
        for id_ in (100, 101, 102)
    }
    found = config_files.zookeeper(THERE, directory=Path("/data"), servers=servers)
    assert found["server.101"] == "127.0.0.6:2888:3888"
    assert {name for name in found if name.startswith("server.")} == {
        "server.100",
        "server.101",
        "server.102",
    }
    assert alone.items() <= found.items()


@pytest.mark.parametrize(
    ("kafka", "count", "names", "files"),
    [
        ("2.8.2", 1, {"zookeeper"}, {"myid"}),
        ("2.8.2", 3, {"zookeeper-100", "zookeeper-101", "zookeeper-102"}, {"myid"}),
        ("4.3.1", 1, {"controller"}, {"meta.properties", "bootstrap.checkpoint"}),
        (
            "4.3.1",
            3,
            {"controller-100", "controller-101", "controller-102"},
            {"meta.properties", "bootstrap.checkpoint"},
        ),
    ],
)
def test_each_controller_has_a_folder_which_can_be_formatted_anew(
    kafka: str,
    count: int,
    names: set[str],
    files: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kraft_features, "checkpoint", lambda _: b"features")
    hosts = AddressGroup(3, count)
    site = cast("Site", SimpleNamespace(inside=hosts, public=hosts))
    layout = Layout(Level.of(release(kafka)), tmp_path, site, overrides={})
    layout.prepare()
    for controller in hosts.coordination:
        layout.format_controller(controller)
    folders = {path for path in layout.coordination.iterdir() if path != layout.scratch}
    assert {folder.name for folder in folders} == names
    for folder in folders:
        (folder / "log").touch()
        assert {path.name for path in folder.iterdir()} == {*files, "log"}
    layout.format_controller(100)
    first = min(folders)
    assert {path.name for path in first.iterdir()} == files
    hosts.close()


@pytest.mark.parametrize("inside", [HERE, THERE])
def test_a_remote_tier_reads_its_topic_at_a_listener_of_the_broker(
    inside: Address, tmp_path: Path
) -> None:
    tier = config_files.remote_tier(tmp_path, brokers=3, two_listeners=inside != HERE)
    written = settings("3.9.2", inside) | tier
    listeners = {place.partition(":")[0] for place in written["listeners"].split(",")}
    assert len(listeners) == 1 + (inside != HERE)
    name = written["remote.log.metadata.manager.listener.name"]
    assert name in listeners
    assert name == written.get("inter.broker.listener.name", name)


def test_what_the_caller_sets_comes_last() -> None:
    found = settings("0.10.2.2", num_io_threads="9", replica_fetch_wait_max_ms="5000")
    assert (found["num.io.threads"], found["replica.fetch.wait.max.ms"]) == ("9", "5000")


def test_last_words_are_the_lines_that_say_why(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(
        "2026-11-21T05:00:00.000Z INFO starting (kafka.Kafka)\n"
        "2026-11-21T05:00:01.000Z FATAL  (kafka.Kafka$)\n"
        "java.io.IOException: No space left on device\n"
        "\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)\n"
        "2026-11-21T05:00:02.000Z INFO shutting down (kafka.Kafka)\n"
    )
    assert failure_lines(log) == "java.io.IOException: No space left on device"


def test_last_words_of_this_life_only(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("t ERROR an old sorrow (a.B)\n")
    since = log.stat().st_size
    with log.open("a") as file:
        file.write("t INFO Terminating process (a.B)\n")
    assert failure_lines(log, since=since) == "t INFO Terminating process (a.B)"
    assert "old sorrow" in failure_lines(log)


def test_last_words_of_the_silent(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    assert "cannot be read" in failure_lines(log)
    log.touch()
    assert failure_lines(log) == "(the log is empty)"


def test_freezing_keeps_evidence_only(tmp_path: Path) -> None:
    replicas, coordination = tmp_path / "replicas", tmp_path / "coordination"
    kept = [
        replicas / "1" / "events-0" / "00.log",
        replicas / "1" / "events-0" / "leader-epoch-checkpoint",
        replicas / "1" / "replication-offset-checkpoint",
        coordination / "controller" / "__cluster_metadata-0" / "00.log",
        *(
            tmp_path / "coordinator-topics" / broker / name
            for broker, name in (
                ("1", "__transaction_state-0/00.log"),
                ("1", "replication-offset-checkpoint"),
                ("2", "__transaction_state-0/00.log"),
            )
        ),
    ]
    dropped = [
        replicas / "1" / "events-0" / "00.index",
        replicas / "1" / "events-0" / "00.timeindex",
        replicas / "1" / "__consumer_offsets-0" / "00.log",
        replicas / "1" / "__transaction_state-0" / "00.log",
        replicas / "1" / "__transaction_state-0" / "00.index",
        replicas / "2" / "__transaction_state-0" / "00.log",
        coordination / "controller" / "__cluster_metadata-0" / "00.timeindex",
    ]
    for path in [
        *(path for path in kept if tmp_path / "coordinator-topics" not in path.parents),
        *dropped,
    ]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert freeze.prune(replicas, coordination) == replicas
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(kept)


def test_freezing_keeps_the_coordinators_of_one_broker(tmp_path: Path) -> None:
    """A program's positions are there, however few brokers it ran on."""
    log = tmp_path / "replicas" / "1" / "__consumer_offsets-0" / "00.log"
    log.parent.mkdir(parents=True)
    log.touch()
    freeze.prune(tmp_path / "replicas", tmp_path / "coordination")
    kept = tmp_path / "coordinator-topics" / "1" / "__consumer_offsets-0" / "00.log"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No space left") as caught, disk_errors(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path) in caught.value.message
    assert "Free" in caught.value.hint


def test_groups_of_two_clusters_never_meet() -> None:
    one, two = AddressGroup(3), AddressGroup(3)
    coordination = [*one.coordination.values(), *two.coordination.values()]
    found = [*one.brokers.values(), *two.brokers.values(), *coordination]
    assert len({str(address) for address in found}) == 8
    one.close()
    two.close()


def test_on_one_address_everybody_has_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_whole_loopback_answers", lambda: False)
    group = AddressGroup(3)
    found = [*group.brokers.values(), *group.coordination.values()]
    assert {address.host for address in found} == {"127.0.0.1"}
    assert len({address.port for address in found}) == 4
    group.close()


@pytest.mark.parametrize("whole", [True, False])
def test_five_controllers_have_hostsand_ports_of_their_own(
    monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    if not whole:
        monkeypatch.setattr(addresses, "_whole_loopback_answers", lambda: False)
    group = AddressGroup(9, 5)
    assert [*group.coordination] == [100, 101, 102, 103, 104]
    listeners = [str(address) for address in group.brokers.values()]
    listeners += [str(address) for address in group.peers.values()]
    for id_, address in group.coordination.items():
        ports = group.ensemble[id_]
        listeners += [f"{address.host}:{port}" for port in (ports.quorum, ports.election)]
        listeners.append(str(address))
    assert len(set(listeners)) == 2 * 9 + 3 * 5
    group.close()


def test_a_taken_port_is_refused_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = Address(host="127.0.0.1", port=server.getsockname()[1])
        with pytest.raises(HarnessError, match=f"broker 1 cannot start: port {taken.port}"):
            require_free(taken, "broker 1")
    require_free(taken, "broker 1")
