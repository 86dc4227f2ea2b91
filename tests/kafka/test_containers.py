"""What is special to containers: whose they are, where they publish, and what stays of them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.containers import base_image, ownership
from highwater.clusters.containers.daemon import Client, connected
from highwater.clusters.containers.images import docker_state
from highwater.clusters.containers.ownership import CLAIM_LABEL, LABEL, Claim
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

pytestmark = [pytest.mark.kafka, pytest.mark.docker, pytest.mark.usefixtures("docker")]

KAFKA = "0.10.2.2"
HARNESS = """
import sys, time
from pathlib import Path
from highwater.clusters.drivers import open_cluster
from highwater.harness.releases.catalogue import release
cluster = open_cluster(release(sys.argv[1]), Path(sys.argv[2]), brokers=2, broker_config={},
                       driver="docker")
print("open", flush=True)
time.sleep(120)
"""


@pytest.fixture
def client() -> Iterator[Client]:
    with connected() as opened:
        yield opened


def one_broker(directory: Path, **config: str) -> RealCluster:
    return open_cluster(release(KAFKA), directory, brokers=1, broker_config=config, driver="docker")


def carrying(client: Client, label: str) -> list[str]:
    """Names of containers and networks with this label."""
    found = client.api.containers(all=True, filters={"label": label})
    networks = client.api.networks(filters={"label": label})
    return [each["Names"][0] for each in found] + [each["Name"] for each in networks]


def open_claims() -> set[str]:
    return {path.name for path in ownership._folder().iterdir()}


def await_nothing(client: Client, before: set[str]) -> None:
    """Wait until no claim is left but those of before, and nothing carries a later one."""

    def left() -> set[str | None]:
        labels = [
            (each.get("Labels") or {}).get(CLAIM_LABEL)
            for each in client.api.containers(all=True, filters={"label": LABEL})
        ]
        return (open_claims() | set(labels)) - before

    await_condition(left, lambda claims: not claims, what="everything to be removed", limit_s=30)


def test_all_is_labelled_published_on_loopback_and_removed(client: Client, tmp_path: Path) -> None:
    before = open_claims()
    with contextlib.closing(one_broker(tmp_path)) as cluster:
        [claim] = open_claims() - before
        label = f"{CLAIM_LABEL}={claim}"
        assert len(carrying(client, label)) == 3  # a broker, ZooKeeper and their network
        for each in client.api.containers(filters={"label": label}):
            ports = client.api.inspect_container(each["Id"])["NetworkSettings"]["Ports"]
            published = [place["HostIp"] for places in ports.values() for place in places or ()]
            assert len(published) == 1
            assert published[0].startswith("127.")
        cluster.create_topic("events", [[1]], {})
        log = cluster.directory / "logs" / "broker-1.log"
        assert "started (kafka.server.KafkaServer)" in log.read_text()
        segment = tmp_path / "replicas" / "1" / "events-0" / "00000000000000000000.log"
        assert (segment.stat().st_uid, segment.stat().st_gid) == (os.getuid(), os.getgid())
    assert carrying(client, label) == []
    assert open_claims() == before
    cluster.close()


def test_a_broker_that_dies_by_itself_is_down(client: Client, tmp_path: Path) -> None:
    with contextlib.closing(one_broker(tmp_path)) as cluster:
        broker = cluster.brokers[1]
        [running] = [
            each["Id"]
            for each in client.api.containers(filters={"label": LABEL})
            if str(tmp_path / "replicas" / "1") in {mount["Source"] for mount in each["Mounts"]}
        ]
        client.api.kill(running)
        await_condition(
            lambda: broker.state,
            lambda state: state == "down",
            what="it to be down",
            limit_s=60,
        )
        broker.start()
        assert broker.state == "running"


def test_a_broker_that_dies_at_start_says_why_and_leaves_nothing(
    client: Client, tmp_path: Path
) -> None:
    before = open_claims()
    with pytest.raises(HarnessError, match=r"(?s)broker 1 exited .*log\.segment\.bytes") as caught:
        one_broker(tmp_path, **{"log.segment.bytes": "many"})
    assert str(tmp_path / "logs") in caught.value.hint
    await_nothing(client, before)


@pytest.mark.parametrize(
    ("moment", "guarded"),
    [
        pytest.param("opening", False, id="opening-swept"),
        pytest.param("open", True, id="open-guarded"),
        pytest.param("opening", True, id="opening-guarded", marks=pytest.mark.nightly),
        pytest.param("open", False, id="open-swept", marks=pytest.mark.nightly),
    ],
)
def test_nothing_outlives_a_killed_harness(
    client: Client, tmp_path: Path, moment: str, *, guarded: bool
) -> None:
    before = open_claims()
    command = [sys.executable, "-c", HARNESS, KAFKA, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as harness:
        assert harness.stdout is not None
        if moment == "open":
            assert harness.stdout.readline() == b"open\n"
        await_condition(
            lambda: [*(tmp_path / "logs").glob("*.log")],
            bool,
            what="a container to start",
            limit_s=90,
        )
        guards = psutil.Process(harness.pid).children()
        if not guarded:
            for guard in guards:
                guard.kill()
        harness.send_signal(signal.SIGKILL)
        harness.communicate(timeout=60)
    assert len(guards) == 1
    if not guarded:
        ownership.sweep()
    await_nothing(client, before)
    assert (tmp_path / "replicas" / "1").is_dir()


def test_a_sweep_spares_the_living(client: Client) -> None:
    living, dead = Claim(), Claim()
    dead._guard.kill()
    dead._guard.wait()
    try:
        for claim in (living, dead):
            client.networks.create(f"highwater-{claim.name}", labels=claim.labels)
        dead.close()
        ownership.sweep()
        assert carrying(client, f"{CLAIM_LABEL}={dead.name}") == []
        assert len(carrying(client, f"{CLAIM_LABEL}={living.name}")) == 1
    finally:
        ownership.remove(client, living.name)
        ownership.forget(living.name)
        living.close()


def test_without_a_daemon_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HarnessError, match=r"Docker does not respond .*: No such file") as caught:
        one_broker(tmp_path)
    assert "--cluster local" in caught.value.hint
    assert not (tmp_path / "replicas").exists()


def test_without_packages_and_registry_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "BUILT", "highwater/none:1")
    monkeypatch.setattr(base_image, "_PULLED", "127.0.0.1:1/none:1")  # nobody listens there
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HarnessError, match="cannot pull the base image") as caught:
        one_broker(tmp_path)
    assert "HIGHWATER_BASE_IMAGE" in caught.value.hint


@contextlib.contextmanager
def daemon_with(megabytes: int) -> Iterator[str]:
    """A Docker daemon of its own whose disk is this small; yields its DOCKER_HOST."""
    with tempfile.TemporaryDirectory(prefix="hw-") as name:  # a socket's path must be short
        yield from _daemon_in(Path(name), megabytes)


def _daemon_in(folder: Path, megabytes: int) -> Iterator[str]:
    data = folder / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", data], check=True)  # noqa: S607
    host = f"unix://{folder}/docker.sock"
    options = ["--bridge=none", "--iptables=false", "--storage-driver=vfs", "--group=root"]
    places = [f"--{name}={folder / name}" for name in ("exec-root", "pidfile")]
    command = ["dockerd", f"--host={host}", f"--data-root={data}", *options, *places]
    log = (folder / "log").open("wb")
    try:
        with subprocess.Popen(command, stdout=log, stderr=log) as daemon:
            try:
                await_condition(
                    (folder / "docker.sock").stat,
                    what="dockerd",
                    limit_s=30,
                    passing=(FileNotFoundError,),
                )
                yield host
            finally:
                daemon.terminate()
                daemon.wait(30)
    finally:
        log.close()
        subprocess.run(["umount", "--recursive", data], check=True)  # noqa: S607


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("dockerd"), reason="a small disk needs root and dockerd"
)
def test_a_full_disk_ends_a_build_with_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon_with(60) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(HarnessError, match="no space left on device") as caught:
            one_broker(tmp_path / "run")
        assert "Free space" in caught.value.hint
        assert docker_state().releases == ()
        with connected() as small:
            tags = [tag for image in small.images.list() for tag in image.tags]
        assert tags == [base_image.BUILT]
