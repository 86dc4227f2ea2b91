"""Record leader, ISR, LEO and HW of every replica during a run."""

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from highwater.clusters.core.interfaces import (
    Cluster,
    NotQueriedError,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.relay.apis import api_name
from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import client_name, node_name
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Recorder
from highwater.runtime.programs.instances import INSTANCE_CLIENT

EVERY_S: Final = 0.1
"""The seconds between two requests to one broker. A HW-lag window is open for at least half a
second, so every window is observed."""


class Observer:
    """Threads that record changes: one for each broker's LEO and HW, one for leader and ISR.

    A broker that does not respond blocks only the thread for this broker.

    Attributes:
        finished: the number of rounds that each thread has finished. In a round, a thread queries
            every partition.
    """

    def __init__(self, cluster: Cluster, recorder: Recorder, topic: Topic) -> None:
        self._recorder = recorder
        self._topic = topic.name
        self._partitions = range(topic.partitions)
        self._stop = threading.Event()
        self._error: Exception | None = None
        looks: list[Callable[[Probe], None]] = [self._partition_look()]
        looks += [self._replica_look(broker) for broker in cluster.brokers]
        if cluster.release.coordination == "kraft":
            looks.append(self._quorum_look())
        self.finished = [0 for _ in looks]
        self._threads = [
            threading.Thread(
                target=self._watch, args=(cluster, look, n), name=f"observer-{n}", daemon=True
            )
            for n, look in enumerate(looks)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def check(self) -> None:
        """Raise the error of a failed thread, if any."""
        if self._error is not None:
            raise self._error

    def _watch(self, cluster: Cluster, look: Callable[[Probe], None], n: int) -> None:
        with contextlib.closing(cluster.probe()) as probe:
            try:
                while not self._stop.is_set():
                    with contextlib.suppress(NotQueriedError):
                        look(probe)
                        self.finished[n] += 1
                    self._stop.wait(EVERY_S)
            except Exception as error:  # noqa: BLE001 - what ends a thread must end the run
                self._error = error

    def _partition_look(self) -> Callable[[Probe], None]:
        before: dict[int, tuple[tuple[PartitionState, int | None], int]] = {}

        def look(probe: Probe) -> None:
            try:
                controller: int | None = probe.controller()
            except UnreachableError:
                controller = None
            for partition in self._partitions:
                asked_ns = self._recorder.clock()
                try:
                    now = (probe.partition(self._topic, partition), controller)
                except UnreachableError:
                    continue
                last, unchanged_ns = before.get(partition, (None, None))
                before[partition] = now, asked_ns
                if last != now:
                    self._recorder.partition(
                        topic=self._topic,
                        partition=partition,
                        leader=now[0].leader,
                        leader_epoch=now[0].leader_epoch,
                        isr=list(now[0].isr),
                        controller=controller,
                        unchanged_ns=unchanged_ns,
                    )

        return look

    def _quorum_look(self) -> Callable[[Probe], None]:
        before: dict[int, dict[str, int | bool]] = {}

        def look(probe: Probe) -> None:
            try:
                quorum = probe.quorum()
            except UnreachableError:
                return
            if quorum is None:
                return
            common = {"leader": quorum.leader, "epoch": quorum.epoch, "hw": quorum.hw}
            for voter, ends in ((True, quorum.voters), (False, quorum.observers)):
                for node, leo in ends.items():
                    now = {"voter": voter, "leo": leo, **common}
                    if before.get(node) != now:
                        before[node] = now
                        self._recorder.controller(node=node, **now)

        return look

    def _replica_look(self, broker: int) -> Callable[[Probe], None]:
        before: dict[int, tuple[ReplicaState | None, int]] = {}

        def look(probe: Probe) -> None:
            failed_ns: int | None = None
            for partition in self._partitions:
                asked_ns = self._recorder.clock()
                now: ReplicaState | None
                try:
                    now = probe.replica(broker, self._topic, partition)
                except NotQueriedError:
                    if failed_ns is None:  # the broker may respond now
                        raise
                    now, asked_ns = None, failed_ns
                except UnreachableError:
                    now, failed_ns = None, asked_ns
                last, unchanged_ns = before.get(partition, (None, None))
                before[partition] = now, asked_ns
                if unchanged_ns is None or last != now:
                    self._recorder.replica(
                        broker=broker,
                        topic=self._topic,
                        partition=partition,
                        leo=None if now is None else now.leo,
                        hw=None if now is None else now.hw,
                        unchanged_ns=unchanged_ns,
                    )

        return look


def _message(row: Mapping[str, Any], names: Mapping[str, str], topic: str) -> dict[str, object]:
    """Return a row of ``events/messages``, with names of nodes, requests and the topic."""
    columns = {name: value for name, value in row.items() if name not in {"kind", "rule"}}
    ends = {name: node_name(row[name]) for name in ("source", "target")}
    columns |= {**ends, "api": api_name(row["api"])}
    return columns | ({"topic": topic} if names.get(row["topic"]) == topic else {})


def _request(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, object]:
    """Return a row of ``events/requests``, with names instead of numbers and ids."""
    source = node_name(row["source"] or "")
    instance = source.removeprefix(client_name(INSTANCE_CLIENT))
    of_instance = instance != source and instance.isdecimal()
    batch = row.get("batch")
    columns = {name: value for name, value in row.items() if name != "kind"}
    return columns | {
        "source": source,
        "instance": int(instance) if of_instance else None,
        "api": api_name(row["api"]),
        "topic": names.get(row.get("topic", "")),
        "batch": None if batch is None else base64.b64decode(batch),
    }


@contextlib.contextmanager
def wire_watched(
    network: Network | None, plan: Plan, recorder: Recorder, zero_ns: int
) -> Iterator[None]:
    """Record messages through the relay during the ``with`` block, if the cluster has a relay.

    Messages about the tested topic are recorded, and messages of any topic that a rule affects.

    Args:
        zero_ns: the monotonic clock at the run's start.
    """
    if network is None:
        yield
        return
    topic, program = plan.topic.name, plan.program
    topics = [topic, program.out] if program and program.out else [topic]
    names = {**{network.topic_id(name): name for name in topics}, **{name: name for name in topics}}

    def watch(row: dict[str, Any]) -> None:
        timed = {name: row[name] - zero_ns for name in ("time_ns", "answered_ns") if row.get(name)}
        with contextlib.suppress(HarnessError):  # the recorder has reported this error to the run
            if row["kind"] == "message":
                recorder.message(_message(row, names, topic) | timed)
            elif row["kind"] == "request":
                if row.get("topic", topic) in names:
                    recorder.request(_request(row, names) | timed)
            elif names.get(row.get("topic", topic)) == topic:
                columns = {name: value for name, value in row.items() if name != "what"}
                columns |= {"topic": topic} if "topic" in row else {}
                recorder.wire(columns | timed)

    network.watch(watch)
    if program is not None and plan.wire_clients:
        network.record_requests([program.out], plan.group)
    try:
        yield
    finally:
        with contextlib.suppress(HarnessError):  # a closed relay reports no more rows
            network.record_requests([], "")
            network.watch(None)
