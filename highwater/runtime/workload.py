"""The producers and consumers of a run, and its final read.

Each producer is a process in the history. It sends records with unique names to every partition,
singly or in transactions. A consumer reads every partition, or shares the partitions in a group.
Clients continue during faults: an error is recorded, but does not stop the client. With churn, each
client is replaced by a client with a new name after some time; half of the replaced clients crash.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.clusters.admin.direct_sender import DirectSender
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition, place_of
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.consumer_loop import ConsumerLoop
from highwater.harness.clients.final_read import (
    PartitionRead,
    final_read,
    read_again,
    readable_end,
)
from highwater.harness.clients.groups.final_offsets import (
    committed_offsets,
    read_group_offsets,
)
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.clients.groups.share_loop import ShareLoop
from highwater.harness.clients.groups.share_member import ShareMember
from highwater.harness.clients.groups.share_session import ShareSession, SteeredShareMember
from highwater.harness.clients.libraries.interfaces import ReaderLibrary, RecordProducer
from highwater.harness.clients.libraries.keyed import NamedProducer
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.clients.operation_buffers import SendBuffer
from highwater.harness.clients.producer_loop import ProducerLoop
from highwater.harness.clients.read_names import names_for
from highwater.harness.clients.record_sender import Sender, SendOutcome
from highwater.harness.clients.send_rate import (
    ClientLifetime,
    RateLimiter,
    draws,
    lives,
)
from highwater.harness.clients.transactional_loop import TransactionLoop
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.history import OK, READ, READ_COMMITTED, RUN, SEND, record_value
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.programs.expressions import expression
from highwater.harness.runs.programs.feed import read_feed
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Run
from highwater.harness.runs.topics.record_keys import keyed_name
from highwater.runtime.client_libraries import CLIENTS_LOG, open_libraries

_GRACE_S: Final = 2.0
_LAST_S: Final = 1.0
_ASK_S: Final = 5.0
_QUIET_S: Final = 3.0
_PATIENCE_S: Final = 30.0
_DRAIN_S: Final = 120.0
_DRAINED_S: Final = 0.5
_LEAVES_S: Final = 15.0
_WARM_S: Final = 30.0
_COMMITS_S: Final = 120.0
_MARKERS_S: Final = 5.0
"""The time within which a coordinator writes markers after its response to an EndTxn."""

_TIMED_OUT_S: Final = 15.0
"""The interval at which a coordinator aborts transactions that exceed their timeout, 10 s by
default (``transaction.abort.timed.out.transaction.cleanup.interval.ms``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of operations for a progress line; ``ok`` and ``read`` may lag by 0.2 s."""

    sent: int
    ok: int
    read: int


def may_be_open_s(timeout_s: float | None, *, answered: bool) -> float | None:
    """Return the longest time in seconds that a transaction may be open after all clients end.

    A client that crashes leaves its transaction open until ``transaction.timeout.ms``.

    Args:
        timeout_s: this timeout for clients that may crash; None without such clients.
        answered: whether all other clients got a response to each EndTxn.

    Returns:
        The seconds; None (unknown) if a client got no response to an EndTxn.
    """
    if not answered:
        return None
    return _MARKERS_S if timeout_s is None else timeout_s + _TIMED_OUT_S


def _feed(plan: Plan) -> dict[str, bytes]:
    """Return the user's inputs by name; empty if Highwater generates the inputs."""
    if plan.program is None or not plan.program.feed:
        return {}
    return read_feed(plan.program.feed, expression(plan.program.match))


class RunningWorkload:
    """The clients of one run, as a context manager or with ``start`` and ``close``.

    Args:
        run: the run; ``logs/clients.log`` in its directory has the clients' log lines.
        access: client settings for these brokers (TLS, SASL); by default those of the release.

    Attributes:
        direct: an additional client that sends records to a chosen broker.
    """

    def __init__(
        self,
        plan: Plan,
        bootstrap: str,
        recorder: Recorder,
        run: Run,
        *,
        access: Mapping[str, str] | None = None,
    ) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._access = release(plan.kafka).client if access is None else access
        self._recorder = recorder
        self._log = clients.open_log(run.logs / CLIENTS_LOG)
        self._feed = _feed(plan)
        self._clients = open_libraries(plan, run.logs)
        self._stop = threading.Event()
        self._answer_limit_s = plan.workload.delivery_timeout_s + _GRACE_S
        self._producers: dict[str, ProducerLoop | TransactionLoop] = {}
        self._threads: list[threading.Thread] = []
        self._members: list[ShareMember] = []
        self._sharing: list[threading.Thread] = []
        self._steered: list[SteeredShareMember] = []
        self._names = names_for(plan)
        self._starts: dict[int, int] = {}
        self._readers: list[ConsumerLoop] = []
        self._drained = threading.Event()
        with contextlib.ExitStack() as opened:
            opened.callback(self._clients.close)
            self._sender = (
                None
                if plan.read_only
                else self._open_sender("story", f"story-{plan.workload.acks}")
            )
            self.direct = DirectSender(plan, recorder)
            opened.pop_all()
        self._asking: dict[str, Consumer] = {}
        self._transactional: list[NamedTransactions] = []
        self._named: list[Sender] = []
        self._outside: set[str] = set()
        self._admin: AdminClient | None = None
        self._all_ended = True
        self._failure: BaseException | None = None

    def _open_sender(
        self, process: str, client: str, settings: Mapping[str, object] = MappingProxyType({})
    ) -> Sender:
        """Open a client for single records; ``client`` is its ``client.id``."""
        return Sender(
            self._recorder,
            {**clients.producer(self._plan, self._common(client)), "linger.ms": 0, **settings},
            {"process": process, "phase": RUN, "topic": self._plan.topic.name},
            size=self._plan.workload.record_bytes,
            library=self._clients.producers,
        )

    def start(self) -> None:
        """Start every producer and consumer of the plan."""
        workload = self._plan.workload
        if self._plan.read_only:
            self._starts = self._ends()
        readers: list[tuple[str, GroupMembership | None]] = []
        readers += [(f"consumer-{index}", None) for index in range(workload.consumers)]
        group = GroupMembership(group=self._plan.group, protocol=workload.group_protocol)
        readers += [(f"member-{index}", group) for index in range(workload.subscribe)]
        for (name, joins), isolation in zip(readers, itertools.cycle(workload.isolation)):
            self._readers.append(self._read(name, joins, isolation, self._clients.readers))
        for index in range(0 if self._plan.story else workload.share):
            self._share(index)
        for index in range(workload.producers):
            name = f"producer-{index}"
            if workload.transactions:
                loop = TransactionLoop(
                    self._plan, self._recorder, self._common, index, self._clients.producers
                )
                self._producers[name] = loop
                self._spawn(name, partial(loop.run, self._stop, lambda: self._answer_limit_s))
            else:
                self._spawn(name, partial(self._produce, name, index))

    def join(self, name: str, membership: GroupMembership) -> ConsumerLoop:
        """Start a group member. In the history, its process is ``name``, which ends in a number.

        The member uses librdkafka, because this library reports the broker from which it fetches. A
        member with automatic commits uses the producers' library.
        """
        by_hand = membership.commits_every_s is None
        library = LIBRDKAFKA if by_hand else self._clients.producers
        return self._read(name, membership, READ_COMMITTED, library)

    def committed(self, group: str) -> Mapping[int, int | None]:
        """Return a group's committed offsets by partition; the client does not join the group.

        Raises:
            UnreachableError: no coordinator responds.
        """
        if group not in self._asking:
            self._asking[group] = Consumer(clients.consumer(self._common("asking"), group=group))
        topic = self._plan.topic
        places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        try:
            return committed_offsets(self._asking[group].committed(places, timeout=_ASK_S))
        except KafkaException as error:
            raise UnreachableError(f"no coordinator of {group} responds: {error}") from error

    def share(self, name: str, group: str) -> ShareLoop:
        """Start a member of a share group; ``name`` is its process in the history."""
        settings = clients.share_consumer(self._common(name), group=group)
        member = ShareLoop(self._plan, self._recorder, settings, process=name)
        self._spawn(name, partial(member.run, self._stop, lambda: self._answer_limit_s))
        return member

    def steered(self, name: str) -> SteeredShareMember:
        """Start a member of the run's share group that polls and acknowledges only on demand."""
        group = self._plan.share_group
        settings = clients.share_consumer(self._common(name), group=group, explicit=True)
        warn = self._log.warning
        session = partial(
            ShareSession,
            self._plan,
            self._recorder,
            settings,
            process=name,
            library=self._clients.readers,
            warn=warn,
        )
        member = SteeredShareMember(session, warn)
        self._steered.append(member)
        return member

    def outside(self, group: str) -> object:
        """Return group metadata for a transaction that commits offsets of a group without members.

        At the end of the run, the harness reads the group's offsets.
        """
        self._outside.add(group)
        client = self._clients.producers.consumer(
            clients.consumer(self._common("outside"), group=group)
        )
        try:
            return client.consumer_group_metadata()
        finally:
            client.close()

    def listed(self) -> frozenset[str]:
        """Return the groups that the brokers list.

        Raises:
            UnreachableError: a broker did not respond.
        """
        self._admin = self._admin or AdminClient(self._common("admin"))
        try:
            groups = self._admin.list_consumer_groups(request_timeout=_ASK_S).result()
        except KafkaException as error:
            raise UnreachableError(str(error)) from error
        if groups.errors:
            raise UnreachableError(str(groups.errors[0]))
        return frozenset(group.group_id for group in groups.valid)

    def _share(self, number: int) -> None:
        """Start a member of the share group; it runs until the group has read all records."""
        member = ShareMember(
            self._plan,
            self._recorder,
            self._common,
            number=number,
            group=self._plan.share_group,
            draining=self._stop,
            library=self._clients.readers,
        )
        self._members.append(member)
        run = partial(member.run, self._drained, lambda: self._answer_limit_s)
        self._sharing.append(self._thread(f"share-{number}", run))

    def _read(
        self,
        name: str,
        joins: GroupMembership | None,
        isolation: str,
        library: ReaderLibrary,
    ) -> ConsumerLoop:
        reader = ConsumerLoop(
            self._plan,
            self._recorder,
            self._common,
            name=name,
            isolation=isolation,
            joins=joins,
            library=library,
            names=self._names,
        )
        reader.begin_at(self._starts)
        self._spawn(name, partial(reader.run, self._stop, lambda: self._answer_limit_s))
        return reader

    def _produce(self, name: str, index: int) -> None:
        """Run a producer without transactions, and after each crash a new producer.

        A producer that crashes does not wait for missing responses.
        """
        plan, clock, library = self._plan, self._recorder.clock, self._clients.producers
        pace = RateLimiter(plan.workload.rate / plan.workload.producers, clock)
        prefix = f"p{index}"
        names, records = [*self._feed], [*self._feed.values()]
        named: Callable[[int], str] | None = names.__getitem__ if records else None
        if plan.workload.keys:
            named = partial(keyed_name, plan, index)
        lengths = draws(plan, f"{name} lives")
        sent = 0
        loop = None
        for life in lives(self._stop, lengths, plan.workload.churn_s):
            process = life.named(name)
            tape = SendBuffer(
                self._recorder,
                process=process,
                topic=plan.topic,
                acks=plan.workload.acks,
                prefix=prefix,
                outcomes=library.outcomes,
                named=named,
            )
            settings = clients.producer(plan, self._common(process))
            opened: Callable[[], RecordProducer] = partial(library.producer, settings)
            if records:
                opened = partial(NamedProducer, settings, dict(zip(records, names, strict=True)))
            if loop is not None:
                loop.close()
            loop = ProducerLoop(
                opened, plan, tape, prefix, pace, first=sent, named=named, records=records
            )
            self._producers[name] = loop
            loop.run(life, partial(self._last_wait_s, life))
            sent = loop.sent

    def _last_wait_s(self, life: ClientLifetime) -> float:
        return 0.0 if life.crashed else self._answer_limit_s

    def stop(self) -> None:
        """Stop sends and reads, and wait for missing responses.

        Producers stay connected until ``close``. A second call has no effect. A send without a
        response has the outcome ``info`` (unknown).
        """
        self._stop.set()
        deadline = time.monotonic() + self._answer_limit_s + 5 * _GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        while self._steered:
            self._steered.pop().leave()
        self._drain()
        stuck = [place_of(thread) for thread in self._threads if thread.is_alive()]
        self._threads = []
        if self._sender is not None:
            self._sender.finish(limit_s=self._answer_limit_s)
        self.direct.close(limit_s=self._answer_limit_s)
        for records in self._named:
            records.close(limit_s=_LAST_S)
        self._named = []
        while self._asking:
            self._asking.popitem()[1].close()
        while self._transactional:
            named = self._transactional.pop()
            named.close()
            self._all_ended = self._all_ended and named.answered
        if stuck:
            raise HarnessError(
                f"{', '.join(stuck)} did not end within {self._answer_limit_s + 5 * _GRACE_S:g} s",
                hint="See logs/clients.log of the run.",
            )

    def _drain(self) -> None:
        """Wait until the share group's members receive no more records, and stop the members.

        A record that a member did not acknowledge goes to another member when its lock ends. If
        records are missing, wait longer, because a member may have to join the group again.
        """
        began = time.monotonic()
        deadline = began + _DRAIN_S
        while self._members and self._answer_limit_s and not self._recorder.failed.is_set():
            given_at = max([began, *(member.given_at for member in self._members)])
            given = set[tuple[int, int]]().union(*(member.given for member in self._members))
            whole = len(given) >= self._recorder.counts().get((SEND, OK), 0)
            quiet_s = time.monotonic() - given_at
            if quiet_s >= (self._plan.lock_s + _QUIET_S if whole else _PATIENCE_S):
                now = self._recorder.clock()
                row = {"process": "reader", "group": self._plan.share_group, "event": "drained"}
                self._recorder.group({**row, "outcome": OK, "invoke_ns": now, "complete_ns": now})
                break
            if time.monotonic() >= deadline:
                break
            self._recorder.failed.wait(_DRAINED_S)
        self._members = []
        self._drained.set()
        for thread in self._sharing:
            thread.join(_LEAVES_S)
        self._threads += self._sharing
        self._sharing = []

    def check(self) -> None:
        """Raise an error if a client has failed, or if a row could not be recorded."""
        self._recorder.check()
        if self._failure is not None:
            raise HarnessError(f"a client thread failed: {self._failure!r}") from self._failure

    @property
    def libraries(self) -> Collection[str]:
        """The library names that the producers' drivers have reported so far."""
        return self._clients.names

    def counts(self) -> Counts:
        """Return the number of operations so far.

        Outcomes include the fences (last records of each partition), but ``sent`` does not.
        """
        counts = self._recorder.counts()
        senders = [
            *self._producers.values(),
            *self._transactional,
            *self._named,
            *([self._sender] if self._sender else []),
            self.direct,
        ]
        sent = sum(sender.sent for sender in senders)
        return Counts(sent=sent, ok=counts.get((SEND, OK), 0), read=counts.get((READ, OK), 0))

    def inputs(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and values of all records that producers have sent as a program's inputs."""
        sent = {name: loop.sent for name, loop in self._producers.items()}
        if self._feed:
            yield from itertools.islice(self._feed.items(), sum(sent.values()))
            return
        for producer, number in sent.items():
            prefix = f"p{producer.rpartition('-')[2]}"
            for sequence in range(number):
                name = f"{prefix}-{sequence}"
                yield name, record_value(name, self._plan.workload.record_bytes)

    def unfed(self) -> str:
        """Return ``7 of 10 inputs were sent in this time; …``; empty if all were sent."""
        fed = sum(1 for _ in self.inputs()) if self._feed else 0
        if fed == len(self._feed):
            return ""
        return (
            f"{fed:,} of {len(self._feed):,} inputs were sent in this time; a higher --rate or a "
            "longer --for sends more"
        )

    def warm_up(self) -> None:
        """Connect the client that ``send`` uses to every leader, so that its first send is fast.

        On an external cluster, the first transaction may create ``__transaction_state``, with many
        partitions. No fault is injected before a transaction has committed.

        Raises:
            WaitTimeoutError: no transaction committed.
        """
        if self._sender is None:
            return
        self._sender.warm_up(limit_s=_WARM_S)
        if self._plan.external is not None and self._plan.workload.transactions:
            await_condition(
                lambda: self._recorder.counts().get((SEND, OK), 0),
                bool,
                what="a transaction to commit (is the user authorized for transactional ids?)",
                limit_s=_COMMITS_S,
            )

    def send(self, value: str, partition: int = 0, *, limit_s: float | None = None) -> SendOutcome:
        """Send one record as the process ``story`` of the history, and wait for its outcome.

        Args:
            value: the record's name, unique in this run.
            limit_s: if no response comes within this time, the outcome is ``info``; by default the
                delivery timeout. The history also gets later responses.
        """
        if self._sender is None:
            raise HarnessError(f"the run only reads {self._plan.topic.name}")
        limit_s = self._answer_limit_s if limit_s is None else limit_s
        return self._sender.send(value, partition, limit_s=limit_s)

    def transactional(
        self, name: str, changes: Mapping[str, object] = MappingProxyType({})
    ) -> NamedTransactions:
        """Open a client that sends single records in transactions, as process ``name``.

        Args:
            changes: settings that override all others.

        Raises:
            HarnessError: no coordinator accepts the client in time.
        """
        topic, size = self._plan.topic.name, self._plan.workload.record_bytes
        settings = clients.transactional(self._plan, self._common(name), f"{topic}-{name}")
        client = NamedTransactions(
            self._recorder,
            settings,
            process=name,
            topic=topic,
            size=size,
            library=self._clients.producers,
            changes=changes,
        )
        self._transactional.append(client)
        return client

    def producer(self, name: str, settings: Mapping[str, object]) -> Sender:
        """Open a client that sends single records without transactions, as process ``name``.

        Args:
            settings: settings that override those of the workload's producers.
        """
        client = self._open_sender(name, name, settings)
        self._named.append(client)
        return client

    def final_read(self, *, limit_s: float = 120.0) -> tuple[PartitionRead, ...]:
        """Write a fence (last record) to each partition, and read all records up to the fence.

        If the run only reads, write nothing, and read the same offsets again.
        """
        reader = clients.consumer(self._common("reader"))
        if self._plan.read_only:
            places = {
                p: (start, max(loop.positions[p] for loop in self._readers))
                for p, start in self._starts.items()
            }
            return read_again(
                *(self._plan, self._recorder, reader, places), names=self._names, limit_s=limit_s
            )
        fence = clients.producer(self._plan, self._common("fence"), acks="all")
        if self._plan.workload.subscribe or self._plan.program:
            self.ask_group()
        for group in sorted(self._outside):
            settings = clients.consumer(self._common("reader"), group=group)
            read_group_offsets(self._plan, self._recorder, settings)
        return final_read(
            self._plan,
            self._recorder,
            fence,
            reader,
            limit_s=limit_s,
            open_s=self._open_s(),
            library=LIBRDKAFKA if self._plan.external is None else self._clients.readers,
        )

    def _ends(self) -> dict[int, int]:
        """Return each partition's last stable offset, at which the readers begin.

        Raises:
            WaitTimeoutError: a partition's leader does not respond.
        """
        topic, client = (
            self._plan.topic,
            LIBRDKAFKA.consumer(clients.consumer(self._common("ends"))),
        )
        try:
            return {
                partition: await_condition(
                    partial(readable_end, client, topic.name, partition),
                    lambda end: end >= 0,
                    what=f"the leader to return the end of {topic.name}-{partition}",
                    limit_s=_WARM_S,
                )
                for partition in range(topic.partitions)
            }
        finally:
            client.close()

    def ask_group(self) -> None:
        """Request and record the offsets of the run's group."""
        read_group_offsets(self._plan, self._recorder, self.group_reader())

    def group_reader(self) -> clients.Settings:
        """Return settings of a client that reads the group's offsets without joining the group."""
        return clients.consumer(self._common("reader"), group=self._plan.group)

    def _open_s(self) -> float | None:
        if not self._plan.workload.transactions:
            return None
        settings = clients.transactional(self._plan, self._common("reader"), "")
        timeout_s = settings["transaction.timeout.ms"] / 1000 if self._producers else None
        return may_be_open_s(timeout_s, answered=self._all_ended)

    def close(self) -> None:
        """Stop all clients, and close their log."""
        try:
            self.stop()
        finally:
            for loop in self._producers.values():
                if isinstance(loop, ProducerLoop):
                    loop.close()
            if self._sender is not None:
                self._sender.close(limit_s=0.0)
            self._clients.close()
            clients.close_log(self._log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        self._answer_limit_s = 0.0
        with contextlib.suppress(HarnessError):  # a client may hang because the cluster is broken
            self.close()

    def _common(self, client_id: str) -> clients.Settings:
        return clients.common(self._bootstrap, client_id, self._log, quirks=self._access)

    def _spawn(self, name: str, loop: Callable[[], None]) -> None:
        self._threads.append(self._thread(name, loop))

    def _thread(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - check() raises it in the run's thread
                self._failure = self._failure or error

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread
