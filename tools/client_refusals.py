"""Test clients whose requests fail with rare errors: docs/client-refusals.json.

python -m tools.client_refusals FOLDER [CLIENT ...]

A trial is a transaction with one record, and with an offset if the client supports this. Or it is
the commit of an offset without a transaction. The relay refuses one request: before the broker
handles it, or by replacing the broker's response. The tool compares the client's result with the
log and the group's offset. Missing drivers (``tools.client_drivers``) are built in ``FOLDER``. If
clients are named, only these are tested, and only their rows are replaced.
"""

import contextlib
import logging
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka
import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.refusals import ERRORS, LEGAL
from highwater.clusters.relay.rules import ANY, client_name
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    ClientLibrary,
)
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.clients.transactional_producer import (
    TransactionalProducer,
    TransactionEnd,
    TransactionTimeouts,
)
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import LIBRARIES, read_client
from highwater.harness.runs.history import FAIL, OK
from highwater.harness.runs.plan import Plan, Workload
from highwater.runtime.client_libraries import open_library
from tools import client_drivers
from tools.client_trials import library_name
from tools.clients_page import (
    ABORTED,
    IN_THE_LOG,
    NOT_IN_THE_LOG,
    REFUSALS,
    SILENT,
    TWICE,
    UNCERTAIN,
    WORKS,
    ClientRefusal,
    read_refusals,
)

APIS_PLAYED: Final = (
    *("EndTxn", "Produce", "AddPartitionsToTxn"),
    *("AddOffsetsToTxn", "TxnOffsetCommit", "OffsetCommit"),
)
REPEATS: Final = 10
"""The number of trials if the client's result and the log disagree."""

_POSITIONS: Final = ("AddOffsetsToTxn", "TxnOffsetCommit")
_DELIVERY_S: Final = 6.0
_CALL_S: Final = 12.0
_LIMIT_S: Final = 4.0
_POLL_S: Final = 0.1
_SETTINGS: Final = {
    **{f"transaction.state.log.{what}": "1" for what in ("replication.factor", "min.isr")},
    "group.initial.rebalance.delay.ms": "0",
}


class Refusal(NamedTuple):
    """An error in place of a broker's response, before or after the broker executes the request."""

    api: str
    error: str
    acted: bool


def refusals() -> Iterator[Refusal]:
    """Yield every refusal that the protocol allows, except those of static group members."""
    for api in APIS_PLAYED:
        for acted in (False, True):
            for error, legal in LEGAL[APIS[api].key].items():
                when = legal.acted in {"either", "after" if acted else "before"}
                if when and legal.only != "static":
                    yield Refusal(api, error, acted)


class Stage:
    """A broker behind the relay, and one client library. Each trial has its own topic."""

    def __init__(self, cluster: RealCluster, client: str, folder: Path) -> None:
        self._cluster = cluster
        self._plan = Plan(
            kafka=cluster.release.name,
            client=client,
            workload=Workload(
                acks="all", idempotence=True, transactions=True, delivery_timeout_s=_DELIVERY_S
            ),
        )
        self._log = client_config.open_log(folder / "clients.log")
        self._opened = open_library(self._plan, folder)
        self._trials = 0
        assert cluster.network is not None
        self._network = cluster.network
        self.name = Path(client).name

    def close(self) -> None:
        """Close the library."""
        self._opened.close()
        client_config.close_log(self._log)

    def play(self, refusal: Refusal) -> ClientRefusal:
        """Run a trial; repeat it if the client's result and the log disagree."""
        result, error = self._try(refusal)
        counts = {result: 1}
        if result in {IN_THE_LOG, NOT_IN_THE_LOG, TWICE}:
            for _ in range(REPEATS - 1):
                again, _ = self._try(refusal)
                counts[again] = counts.get(again, 0) + 1
        return ClientRefusal(
            client=self.name,
            library=library_name(self._plan.client, self._plan.kafka, self._opened.names),
            api=refusal.api,
            error=refusal.error,
            acted=refusal.acted,
            result=result,
            said=error or "",
            times=counts[result],
            plays=sum(counts.values()),
        )

    def _try(self, refusal: Refusal) -> tuple[str, str | None]:
        """Run a trial; return its result, and the error of the commit or abort."""
        self._trials += 1
        name = f"{self.name.replace('@', '-').replace(':', '-')}-{self._trials}"
        self._cluster.create_topic(name, [[1]], {})
        if refusal.api == "OffsetCommit":
            return self._try_position(refusal, name)
        session = self._session(self._opened.library, name)
        try:
            if not session.open() or not session.begin():
                return SILENT, "no transaction began"
            messages = self._network.catch(_rule(refusal, name))
            session.client.queue(name, name.encode(), 0, on_delivery=lambda *_: None)
            session.flush()
            position = refusal.api in _POSITIONS
            if position and not session.offsets([TopicPartition(name, 0, 1)], self._outside(name)):
                end = session.abort()
            else:
                end = session.commit()
            messages.release("time")
            if not messages.events("refused"):
                return "", None  # this client sends no such request
            return self._outcome(end, name, position=position), end.error
        finally:
            session.drop()

    def _try_position(self, refusal: Refusal, name: str) -> tuple[str, str | None]:
        """Let a group member commit an offset; return the trial's result and the commit's error."""
        member = TrackedConsumer(
            self._reading(name, name), name, 1, lambda *_, **__: None, library=self._opened.library
        )
        try:
            member.subscribe()
        except HarnessError:  # a driver without groups
            return "", None
        await_condition(
            lambda: (member.poll(1, _POLL_S), member.assigned),
            lambda seen: bool(seen[1]),
            what="the group to assign the partition",
            limit_s=_CALL_S,
        )
        messages = self._network.catch(_rule(refusal, name))
        place = TopicPartition(name, 0, 1)
        error: ClientError | None = None
        try:
            answers = member.client.commit(offsets=[place], asynchronous=False) or []
            error = next((answer.error for answer in answers if answer.error), None)
        except KafkaException as raised:
            error = raised.args[0]
        finally:
            messages.release("time")
            member.drop()
        if not messages.events("refused"):
            return "", None
        there = self._position(name)
        if error is None:
            return WORKS if there else NOT_IN_THE_LOG, None
        return UNCERTAIN if there else ABORTED, error.name()

    def _reading(self, name: str, group: str) -> client_config.Settings:
        quirks = self._cluster.release.client
        common = client_config.common(self._cluster.bootstrap, name, self._log, quirks=quirks)
        return client_config.consumer(common, group=group)

    def _outside(self, group: str) -> object:
        """Return metadata of a group without members; for client drivers, the group's name."""
        if read_client(self._plan.client, self._plan.kafka).command:
            return group
        consumer = self._opened.library.consumer(self._reading("outside", group))
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _position(self, name: str) -> bool:
        """Return whether the group has committed its position."""
        direct = _reading(self._cluster.brokers[1].address, "read_committed")
        reader = confluent_kafka.Consumer({**direct, "group.id": name})
        try:
            [place] = reader.committed([TopicPartition(name, 0)], timeout=_CALL_S)
            return bool(place.offset == 1)
        finally:
            reader.close()

    def _session(self, library: ClientLibrary, name: str) -> TransactionalProducer:
        quirks = self._cluster.release.client
        common = client_config.common(self._cluster.bootstrap, name, self._log, quirks=quirks)
        settings = client_config.transactional(self._plan, common, name)
        patience = TransactionTimeouts(threading.Event(), _CALL_S, lambda: _CALL_S)
        return TransactionalProducer(settings, patience, library)

    def _outcome(self, end: TransactionEnd, topic: str, *, position: bool) -> str:
        if end.outcome not in {OK, FAIL}:
            return UNCERTAIN if end.answered else SILENT
        count = self._committed(topic)
        if position and self._position(topic) != bool(count):
            return NOT_IN_THE_LOG if end.outcome == OK else IN_THE_LOG
        if count > 1:
            return TWICE
        if end.outcome == OK:
            return WORKS if count else NOT_IN_THE_LOG
        return IN_THE_LOG if count else ABORTED

    def _committed(self, topic: str) -> int:
        """Return the number of committed records, after all transactions have ended."""
        place = TopicPartition(topic, 0, 0)
        direct = self._cluster.brokers[1].address
        levels = ("read_committed", "read_uncommitted")
        readers = [confluent_kafka.Consumer(_reading(direct, level)) for level in levels]
        try:
            with contextlib.suppress(WaitTimeoutError):  # an open transaction never ends
                await_condition(
                    lambda: {reader.get_watermark_offsets(place)[1] for reader in readers},
                    lambda ends: len(ends) == 1,
                    what="the transaction to end",
                    limit_s=_LIMIT_S,
                )
            readers[0].assign([place])
            count = 0
            while (record := readers[0].poll(_LIMIT_S)) is not None:
                problem = record.error()
                if problem is None:
                    count += 1
                elif problem.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    break
            return count
        finally:
            for reader in readers:
                reader.close()


def _rule(refusal: Refusal, client: str) -> MessageRule:
    source, target = client_name(client), ANY
    if refusal.acted:
        source, target = target, source
    return MessageRule(
        action="refuse",
        api=APIS[refusal.api].key,
        side="answer" if refusal.acted else "request",
        source=source,
        target=target,
        error=ERRORS[refusal.error],
    )


def _reading(address: str, level: str) -> dict[str, Any]:
    log = logging.Logger("trial")  # noqa: LOG001 - ours alone, not global
    log.addHandler(logging.NullHandler())
    return {
        "bootstrap.servers": address,
        "group.id": "trial",
        "isolation.level": level,
        "enable.partition.eof": True,
        "logger": log,
    }


def play(drivers: Path, clients: tuple[str, ...], folder: Path) -> Iterator[ClientRefusal]:
    """Test each client with every refusal on one broker of the newest release."""
    opened = open_cluster(
        release(MODERN),
        folder / "cluster",
        brokers=1,
        broker_config=_SETTINGS,
        wired=True,
        clients_wired=True,
    )
    with contextlib.closing(opened) as cluster:
        for client in clients:
            word = client
            if client.partition("@")[0] in client_drivers.LIBRARIES:
                word = str(drivers.absolute() / client)
                if not Path(word).exists():
                    client_drivers.build(client, drivers)
            assert read_client(word, MODERN).idempotence
            logs = folder / client.replace("@", "-")
            logs.mkdir()
            with contextlib.closing(Stage(cluster, word, logs)) as stage:
                for refusal in refusals():
                    row = stage.play(refusal)
                    if row.result:
                        yield row


def main() -> None:
    """Run the trials, and write the result of each at once."""
    drivers, *names = sys.argv[1:]
    clients = tuple(names) or (*LIBRARIES, *client_drivers.LIBRARIES)
    rows: list[ClientRefusal] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in play(Path(drivers), clients, Path(folder)):
            sys.stdout.write(f"{row.client} {row.api} {row.error} {row.acted}: {row.result}\n")
            sys.stdout.flush()
            rows.append(row)
            others = [row for row in read_refusals() if row.client not in clients]
            text = msgspec.json.format(msgspec.json.encode([*others, *rows]), indent=1)
            REFUSALS.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
