"""A cluster as a person makes it: three nodes by hand, Kafka's defaults, a script that starts each.

Nothing of it is Highwater's but the jars. It is described by an inventory as docs/external.md
shows one, and by ``facts``: all that an administrator can ask of it. With Kafka's defaults the log
cleaner takes 128 MB at each start, for which a heap of 256 MB was once too small.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka import admin as confluent_admin

from highwater.clusters.core.addresses import Address, AddressGroup
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.core.java_properties import to_properties
from highwater.clusters.external.cluster_survey import ClusterSurvey
from highwater.clusters.external.metadata import query_identity
from highwater.clusters.nodes.config_files import kafka_uuid
from highwater.clusters.nodes.jvm import java, write_logging
from highwater.clusters.releases.jars import classpath
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

API: Final[Any] = confluent_admin
"""Untyped: it exports nothing explicitly."""

USED: Final = "orders"
PAIRS: Final = "pairs"
"""Two replicas: one of three combined nodes elects nothing, so that three replicas lose nothing."""
_IDS: Final = (1, 2, 3)
_ZOOKEEPER: Final = "zookeeper"
_LIMIT_S: Final = 120
_START: Final = """\
#!/bin/sh
kill -0 "$(cat {pid} 2>/dev/null)" 2>/dev/null && exit 0
setsid nohup {java} -Xmx512m {logging} -cp {jars} {main} {config} >>{log} 2>&1 </dev/null &
echo $! >{pid}
"""
_CUT: Final = (
    "import sys; from pathlib import Path; "
    "from highwater.nemesis.faults.disk_damage import lose_unflushed; "
    "data = Path(sys.argv[1]); "
    '[lose_unflushed(data, name, flushes=None) for name in sorted({path.name.rpartition("-")[0] '
    'for path in data.glob("highwater-*-*")})]'
)
_GONE: Final = "while kill -0 $(cat {pid}) 2>/dev/null; do sleep 0.1; done"

COMMANDS: Final[Mapping[str, str]] = {
    "check": "kill -0 $(cat {pid})",
    "kill": f"kill -KILL $(cat {{pid}}); {_GONE}",
    "pause": "kill -STOP $(cat {pid})",
    "resume": "kill -CONT $(cat {pid})",
    "stop": f"kill -TERM $(cat {{pid}}); {_GONE}",
    "start": "sh {start}",
    "copy": "cp -r {data}/{topic}-* {data}/*checkpoint {into}",
}
POWER_CUT: Final[Mapping[str, str]] = {
    "kill": f"{COMMANDS['kill']}; {sys.executable} -c '{_CUT}' {{data}}",
}
"""A machine without power: what the broker had not flushed of the run's topic is gone."""


class OwnCluster:
    """Three nodes, with ZooKeeper or combined with the controllers.

    Attributes:
        cluster_id: as its brokers tell it.
        code: that confirms it.
    """

    cluster_id: str
    code: str

    def __init__(
        self, kafka: str, directory: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.release = release(kafka)
        self._settings_of_all = settings
        self.directory = directory
        self._group = AddressGroup(len(_IDS), 1 if self._on_zookeeper else len(_IDS))
        self.brokers: Mapping[int, Address] = self._group.brokers
        self.bootstrap = ",".join(map(str, self.brokers.values()))
        self._jars = ":".join(map(str, classpath(self.release)))
        self._prepare()
        self.admin = self._client()

    def _client(self) -> Any:  # noqa: ANN401 - API is untyped
        return API.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": "0"})

    def boot(self) -> None:
        """Start every node, and wait until a broker lists all of them."""
        for node in self._nodes:
            self.start(node)
        identity = await_condition(
            partial(query_identity, self.brokers[1]),
            lambda seen: len(seen.addresses) == len(_IDS),
            what="broker 1 to list every broker",
            limit_s=_LIMIT_S,
            passing=(UnreachableError,),
        )
        self.cluster_id, self.code = identity.cluster_id, identity.code
        await_condition(
            self._controller,
            lambda node: node is not None and node.id >= 0,
            what="a broker to name the controller",
            limit_s=_LIMIT_S,
            passing=(KafkaException,),
        )

    def _controller(self) -> Any:  # noqa: ANN401 - API is untyped
        """Ask with a new client: one that has seen no controller waits for minutes."""
        self.admin = self._client()
        return self.admin.describe_cluster(request_timeout=10).result(20).controller

    @property
    def _on_zookeeper(self) -> bool:
        return self.release.coordination == "zookeeper"

    @property
    def _nodes(self) -> tuple[int | str, ...]:
        return (_ZOOKEEPER, *_IDS) if self._on_zookeeper else _IDS

    def path(self, node: int | str, kind: str) -> Path:
        """Return a node's file: ``pid``, ``log``, ``sh`` or ``properties``; or its ``data``."""
        return self.directory / f"{node}.{kind}"

    def _prepare(self) -> None:
        """Write the files of every node; format the disks on KRaft."""
        self.directory.mkdir()
        coordination = [str(address) for address in self._group.coordination.values()]
        if self._on_zookeeper:
            host, _, port = coordination[0].rpartition(":")
            quorum = {"dataDir": str(self.path(_ZOOKEEPER, "data")), "clientPort": port}
            quorum |= {"clientPortAddress": host, "admin.enableServer": "false"}
            self._write(_ZOOKEEPER, quorum)
        voters = ",".join(f"{id_}@{at}" for id_, at in zip(_IDS, coordination, strict=False))
        cluster_id = kafka_uuid()
        for id_ in _IDS:
            shared = {"log.dirs": str(self.path(id_, "data")), **self._settings_of_all}
            client = f"PLAINTEXT://{self.brokers[id_]}"
            if self._on_zookeeper:
                own = {"broker.id": str(id_), "zookeeper.connect": coordination[0]}
                self._write(id_, {**shared, **own, "listeners": client})
                continue
            own = {
                "process.roles": "broker,controller",
                "node.id": str(id_),
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"{client},CONTROLLER://{coordination[id_ - 1]}",
                "advertised.listeners": client,
            }
            self._write(id_, shared | own)
            self._format(id_, cluster_id)

    def _write(self, node: int | str, settings: Mapping[str, str]) -> None:
        self.path(node, "properties").write_text(to_properties(dict(settings)), encoding="ascii")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        script = _START.format(
            pid=self.path(node, "pid"),
            java=java(),
            logging=self._logging(),
            jars=self._jars,
            main=main if node == _ZOOKEEPER else "kafka.Kafka",
            config=self.path(node, "properties"),
            log=self.path(node, "log"),
        )
        self.path(node, "sh").write_text(script, encoding="utf-8")

    def _logging(self) -> str:
        """Return the flag by which a node says what it does, as with Kafka's own scripts."""
        [(name, value)] = write_logging(self.release, self.directory).items()
        return f"-D{name}={value}"

    def _format(self, node: int, cluster_id: str) -> None:
        words = ("format", "-t", cluster_id, "-c", self.path(node, "properties"))
        tool: list[str | Path] = [java(), "-cp", self._jars, "kafka.tools.StorageTool", *words]
        subprocess.run(tool, check=True, capture_output=True, timeout=_LIMIT_S)

    def start(self, node: int | str) -> None:
        """Start a node by its script; harmless if it runs."""
        subprocess.run(["/bin/sh", self.path(node, "sh")], check=True, timeout=_LIMIT_S)

    def pid(self, node: int | str) -> int:
        """Return a node's last process id."""
        return int(self.path(node, "pid").read_text())

    def inventory(self, commands: Mapping[str, str]) -> Path:
        """Write an inventory, as docs/external.md shows it, with these commands changed."""
        lines = [
            f"bootstrap = {json.dumps(self.bootstrap)}",
            f"kafka = {json.dumps(self.release.name)}",
            "[commands]",
            *(f"{verb} = {json.dumps(line)}" for verb, line in {**COMMANDS, **commands}.items()),
        ]
        for id_ in _IDS:
            lines += [
                f"[brokers.{id_}]",
                f'pid = "{self.path(id_, "pid")}"',
                f'data = "{self.path(id_, "data")}"',
                f'start = "{self.path(id_, "sh")}"',
            ]
        path = self.directory / "staging.toml"
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return path

    def use(self, *, group: bool) -> None:
        """Make a topic with settings of its own, and a broker's; a group that committed, or none.

        Afterwards every node is restarted in order, so that all of it is flushed.
        """
        settings = {"retention.ms": "86400000", "min.insync.replicas": "2"}
        topic = API.NewTopic(USED, num_partitions=4, replication_factor=3, config=settings)
        pairs = API.NewTopic(PAIRS, num_partitions=2, replication_factor=2)
        _done(self.admin.create_topics([topic, pairs]))
        setting = API.AlterConfigOpType.SET
        entry = API.ConfigEntry("log.cleaner.threads", "2", incremental_operation=setting)
        resource = API.ConfigResource(
            API.ConfigResource.Type.BROKER, "2", incremental_configs=[entry]
        )
        _done(self.admin.incremental_alter_configs([resource]))
        if group:
            billing = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "billing"})
            await_condition(
                lambda: billing.commit(offsets=[Place(USED, 0, 0)], asynchronous=False),
                what="a group to commit",
                limit_s=_LIMIT_S,
                passing=(KafkaException,),
            )
            billing.close()
        for id_ in _IDS:
            self.await_in_sync()
            os.kill(self.pid(id_), signal.SIGTERM)
            await_condition(
                partial(_running, self.pid(id_)), lambda one: not one, what="its end", limit_s=60
            )
            self.start(id_)

    def await_in_sync(self) -> None:
        """Wait until every broker is listed, and every replica in sync."""
        await_condition(
            self._out_of_sync, lambda out: not out, what="all to be in sync", limit_s=_LIMIT_S,
            passing=(KafkaException,),
        )  # fmt: skip

    def _out_of_sync(self) -> list[str]:
        metadata = self.admin.list_topics(timeout=10)
        missing = [str(id_) for id_ in _IDS if id_ not in metadata.brokers]
        return missing + [
            f"{topic.topic}-{part.id}"
            for topic in metadata.topics.values()
            for part in topic.partitions.values()
            if len(part.isrs) < len(part.replicas) or part.leader < 0
        ]

    def facts(self) -> dict[str, Any]:
        """Return what the admin API tells, sorted, with nothing left out but who leads now.

        Who leads, in which epoch, and the order of an ISR follow from a broker's restart alone.
        """
        self.admin = self._client()  # one that was asked before may wait for a broker that ended
        self.await_in_sync()
        return await_condition(
            self._facts,
            what="brokers to tell what there is",
            limit_s=_LIMIT_S,
            passing=(KafkaException,),  # a broker that has just started has older metadata
        )

    def _facts(self) -> dict[str, Any]:
        self.admin = self._client()
        facts = ClusterSurvey(self.bootstrap, self.brokers[1].dial).read(internal=True)
        topics = sorted(self.admin.list_topics(timeout=10).topics)
        return {
            "advised": {k: v for k, v in asdict(facts).items() if k != "requests"},
            "topics": self._topics(topics),
            "settings": self._settings(topics),
            "groups": self._groups(),
            "acls": self._acls(),
        }

    def _topics(self, names: list[str]) -> dict[str, Any]:
        asked = self.admin.describe_topics(TopicCollection(names)) if names else {}
        told = {name: future.result() for name, future in asked.items()}
        places = [Place(name, part.id) for name in told for part in told[name].partitions]
        ends = self.admin.list_offsets({place: API.OffsetSpec.latest() for place in places})
        offsets = {(at.topic, at.partition): each.result().offset for at, each in ends.items()}
        return {
            name: {
                "id": str(topic.topic_id),
                "internal": topic.is_internal,
                "partitions": [
                    {
                        "id": part.id,
                        "replicas": [node.id for node in part.replicas],
                        "isr": sorted(node.id for node in part.isr),
                        "end": offsets[name, part.id],
                    }
                    for part in topic.partitions
                ],
            }
            for name, topic in told.items()
        }

    def _settings(self, topics: list[str]) -> dict[str, Any]:
        kind = API.ConfigResource.Type
        asked = [API.ConfigResource(kind.TOPIC, name) for name in topics]
        asked += [API.ConfigResource(kind.BROKER, str(id_)) for id_ in _IDS]
        told: dict[str, Any] = {}
        for one in asked:  # settings of a broker are asked of that broker
            [(resource, future)] = self.admin.describe_configs([one]).items()
            entries = future.result().values()
            told[f"{resource.restype.name} {resource.name}"] = {
                entry.name: [entry.value, entry.source] for entry in sorted(entries, key=_name)
            }
        return told

    def _groups(self) -> dict[str, Any]:
        groups = sorted(one.group_id for one in self.admin.list_consumer_groups().result().valid)
        told = {}
        for group in groups:
            [described] = self.admin.describe_consumer_groups([group]).values()
            asked = [ConsumerGroupTopicPartitions(group)]
            [offsets] = self.admin.list_consumer_group_offsets(asked).values()
            places = [
                [at.topic, at.partition, at.offset] for at in offsets.result().topic_partitions
            ]
            told[group] = [described.result().state.name, sorted(places)]
        return told

    def _acls(self) -> list[str] | str:
        everything = API.AclBindingFilter(
            API.ResourceType.ANY, None, API.ResourcePatternType.ANY, None, None,
            API.AclOperation.ANY, API.AclPermissionType.ANY,
        )  # fmt: skip
        try:
            return sorted(map(str, self.admin.describe_acls(everything).result()))
        except KafkaException as error:
            return str(error.args[0].name())

    def close(self) -> None:
        """Kill every node."""
        for node in self._nodes:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(self.pid(node), signal.SIGKILL)


@contextlib.contextmanager
def own_cluster(
    kafka: str,
    directory: Path,
    *,
    group: bool,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[OwnCluster]:
    """Make a cluster that is in use, until the block ends; all brokers have these settings."""
    made = OwnCluster(kafka, directory, settings)
    try:
        made.boot()
        made.use(group=group)
        yield made
    finally:
        made.close()


def differences(before: Any, after: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON
    """Return where two facts differ, a line each; empty: they are the same to the byte."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted({*before, *after}, key=str)
            for line in differences(before.get(key), after.get(key), f"{path}/{key}")
        ]
    text = [json.dumps(each, default=str)[:160] for each in (before, after)]
    return [] if before == after else [f"{path}: {text[0]} became {text[1]}"]


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result()


def _running(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    return f"process {pid} runs"


def _name(entry: Any) -> str:  # noqa: ANN401 - API is untyped
    return str(entry.name)
