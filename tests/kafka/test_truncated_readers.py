"""Readers that are paused while their log is truncated: which notice (KIP-320)?

A reader has read five records when the only replica with the last three of them dies, or loses them
with its power. The next leader writes other records at these offsets. A reader that compares leader
epochs goes back to the first of them. A reader that compares offsets only skips all three, and
reports nothing. So does a share group, whose start offset has no leader epoch (KIP-932).
"""

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest
from confluent_kafka import TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.core.interfaces import Probe
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import RecordConsumer
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import read_client
from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults import disk_damage
from highwater.runtime.client_libraries import open_library
from tests.kafka.test_cluster import await_isr, await_leader, send
from tests.kafka.test_python_clients import QUIET
from tools.client_drivers import LIBRARIES, SOURCES, build, lacks

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]

TOPIC, LIMIT_S = "cut", 60.0
OLD, LOST = ["m0", "m1"], ["m2", "m3", "m4"]
NEW = ["n2", "n3", "n4", "n5", "n6"]
NOTICES: Final = {
    "librdkafka": True,
    "java": True,
    "java:2.8.2": True,
    "java:2.1.1": False,
    "kafka-python": True,
    "aiokafka": False,
    "franz-go": True,
    "sarama": False,
    "kafkajs": False,
    "platformatic": False,
}
"""Whether each library's readers notice, with brokers of 4.4.0."""
OLD_BROKERS: Final = "2.1.1"
"""With these brokers no reader notices, but franz-go's may."""
IN_GROUPS: Final = frozenset({"kafkajs", "platformatic"})
"""The libraries that read in groups only. A power failure takes what their group has, too."""
CONFIG: Final = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1"}


class Reader:
    """A library's reader of the topic, in processes of its own, which can be paused."""

    def __init__(self, name: str, client: RecordConsumer, others: set[psutil.Process]) -> None:
        self._name, self._client = name, client
        self.values: list[str] = []
        client.assign([TopicPartition(TOPIC, 0, 0)])
        self.read_to(LOST[-1])
        self.pids = processes() - others

    def read_to(self, last: str) -> None:
        await_condition(
            self._poll,
            lambda _: last in self.values,
            what=f"{self._name} to get {last}",
            limit_s=LIMIT_S,
        )

    def _poll(self) -> list[str]:
        for message in self._client.consume(100, 0.2):
            if (error := message.error()) is None:
                self.values.append((message.value() or b"").decode())
            elif message.partition() is not None:
                place = TopicPartition(TOPIC, 0, message.offset() or 0)
                self.values.append(f"{error.name()} at {place.offset}")
                low, high = self._client.get_watermark_offsets(place, timeout=LIMIT_S)
                place.offset = min(max(place.offset, low), high)
                self._client.assign([place])
        return self.values


class GroupReader:
    """A library's reader of the topic in a group: a program that prints what it reads."""

    def __init__(self, program: Path, bootstrap: str) -> None:
        self._name = program.name
        home = program.with_name(f"{program.name}-files")
        script = shutil.copy(Path(__file__).with_name("group_readers.mjs"), home)
        node = home / "node_modules" / ".bin" / "node"
        self._printed = home / "values"
        with self._printed.open("w", encoding="utf-8") as output:
            words = (str(node), str(script), program.name, bootstrap, TOPIC)
            self.process = psutil.Popen(words, stdout=output)
        self.pids = {self.process}

    @property
    def values(self) -> list[str]:
        return self._printed.read_text(encoding="utf-8").split()

    def read_to(self, last: str) -> None:
        await_condition(
            lambda: self.values,
            lambda values: last in values,
            what=f"{self._name} to get {last}",
            limit_s=LIMIT_S,
        )


def processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


def commands(kafka: str, folder: Path) -> dict[str, str]:
    """Return the word of ``--client`` for each library that can be played with these brokers."""
    words = {"librdkafka": f"{sys.executable} {SOURCES / 'librdkafka.py'}"}
    for name in NOTICES:
        if name in LIBRARIES:
            if not lacks(name):
                words[name] = str(build(name, folder))
        elif not read_client(name, kafka).why_not(release(kafka)):
            words.setdefault(name, name)
    return words


@contextlib.contextmanager
def reading(
    cluster: RealCluster, name: str, word: str, logs: Path
) -> Iterator[Reader | GroupReader]:
    """Open a reader, and let it read every record."""
    if name in IN_GROUPS:
        grouped = GroupReader(Path(word), cluster.bootstrap)
        try:
            grouped.read_to(LOST[-1])
            yield grouped
        finally:
            grouped.process.kill()
            grouped.process.wait()
        return
    before = processes()
    logs.mkdir()
    kafka = cluster.release.name
    with contextlib.closing(open_library(Plan(kafka=kafka, client=word), logs)) as library:
        quirks = cluster.release.client
        common = clients.common(cluster.bootstrap, name, QUIET, quirks=quirks)
        yield Reader(name, library.library.consumer(clients.consumer(common)), before)


def unclean_election(cluster: RealCluster, probe: Probe) -> None:
    """Let broker 2, which lacks the last records, lead; then broker 1 truncates them."""
    cluster.brokers[1].kill()
    cluster.brokers[2].start()
    await_leader(probe, TOPIC, 2)
    send(cluster, TOPIC, *NEW)
    cluster.brokers[1].start()  # the only broker that many readers know
    await_isr(probe, TOPIC, {1, 2})


def power_failure(cluster: RealCluster, probe: Probe) -> None:
    """Let broker 1, the only one in sync, lose the last records, and lead again."""
    cluster.brokers[1].kill()
    assert disk_damage.lose_unflushed(cluster.brokers[1].directory, TOPIC, flushes=None)
    cluster.brokers[1].start()
    await_leader(probe, TOPIC, 1)
    send(cluster, TOPIC, *NEW)


@contextlib.contextmanager
def truncated_later(kafka: str, folder: Path) -> Iterator[tuple[RealCluster, Probe]]:
    """Start two brokers, and write the first records; only broker 1 has those of LOST."""
    with contextlib.ExitStack() as opened:
        cluster = open_cluster(release(kafka), folder, brokers=2, broker_config=CONFIG)
        opened.enter_context(contextlib.closing(cluster))
        probe = opened.enter_context(contextlib.closing(cluster.probe()))
        cluster.create_topic(TOPIC, [[1, 2]], {"unclean.leader.election.enable": "true"})
        await_isr(probe, TOPIC, {1, 2})
        send(cluster, TOPIC, *OLD)
        cluster.brokers[2].stop()
        await_isr(probe, TOPIC, {1})
        cluster.brokers[1].restart()  # flushes
        await_leader(probe, TOPIC, 1)
        send(cluster, TOPIC, *LOST)
        yield cluster, probe


def test_a_share_group_skips_the_records_at_offsets_that_it_has_accepted(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        truncated_later(MODERN, tmp_path / "cluster") as (cluster, probe),
        contextlib.closing(open_library(Plan(kafka=MODERN), logs)) as library,
    ):
        cluster.configure_group("readers", {"share.auto.offset.reset": "earliest"})
        common = clients.common(cluster.bootstrap, "share", QUIET, quirks=cluster.release.client)
        member = library.library.share_consumer(clients.share_consumer(common, group="readers"))
        member.subscribe([TOPIC])
        values: list[str] = []

        def read_to(last: str) -> None:
            await_condition(
                lambda: values.extend(
                    (message.value() or b"").decode() for message in member.poll(0.2)
                ),
                lambda _: last in values,
                what=f"the share group to get {last}",
                limit_s=LIMIT_S,
            )

        read_to(LOST[-1])
        member.commit_sync(LIMIT_S)
        unclean_election(cluster, probe)
        read_to(NEW[-1])
        member.close()
    assert values == [*OLD, *LOST, *NEW[len(LOST) :]]


@pytest.mark.parametrize("truncate", [unclean_election, power_failure])
@pytest.mark.parametrize("kafka", [OLD_BROKERS, MODERN])
def test_only_some_readers_notice_that_records_are_gone(
    kafka: str, truncate: Callable[[RealCluster, Probe], None], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as opened:
        cluster, probe = opened.enter_context(truncated_later(kafka, tmp_path / "cluster"))
        readers = {
            name: opened.enter_context(reading(cluster, name, word, tmp_path / f"{name}-logs"))
            for name, word in commands(kafka, tmp_path).items()
            if truncate is unclean_election or name not in IN_GROUPS
        }
        paused = [each for reader in readers.values() for each in reader.pids]
        for each in paused:
            opened.callback(resume, each)
            each.suspend()
        truncate(cluster, probe)
        for each in paused:
            resume(each)
        for reader in readers.values():
            reader.read_to(NEW[-1])
        after = {name: reader.values[len(OLD + LOST) :] for name, reader in readers.items()}
    noticed = {name for name, values in after.items() if "n2" in values}
    if kafka == OLD_BROKERS:
        assert noticed <= {"franz-go"}, after
    else:
        assert noticed == {name for name in readers if NOTICES[name]}, after
    skipped = [values for name, values in after.items() if name not in noticed]
    assert all(values == ["n5", "n6"] for values in skipped), after
