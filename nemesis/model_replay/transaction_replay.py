"""Execute a counterexample of the transaction model on real brokers.

The producer and the brokers send all messages through the relay. If a request arrives late in the
counterexample, the relay holds it, and the sender closes the connection. After each step the
partition's log must have the length that the model predicts for this release and client.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_rules import transaction_client
from highwater.checkers.model.transactions.transaction_schedule import (
    END,
    MARKER,
    TransactionAction,
    predict_records,
    transaction_schedule,
)
from highwater.clusters.admin.sessions import await_cluster
from highwater.clusters.core.interfaces import Cluster, Probe
from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.releases.client_choice import JAVA, LIBRDKAFKA, read_client
from highwater.harness.runs.history import OK
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.model_replay.replay_steps import replay_steps
from highwater.nemesis.stories.helpers import await_event, await_replicas
from highwater.nemesis.stories.story import BROKER_CONFIG

MODEL: Final = "transactions"
"""The value of the field ``model`` in a counterexample file of the transaction model."""

_WRITER: Final = "writer"
_PRODUCE: Final = f"Produce client:{_WRITER}>*"
_END_TXN: Final = f"EndTxn client:{_WRITER}>*"
_OTHER: Final = "other"
_LAST: Final = "last"
_LIMIT_S: Final = 15.0
_REPLICAS: Final = 3

_OLD_JAVA: Final = "java:3.9.2"
"""The last release of Java's clients that has only transaction version 1."""

_REQUEST_S: Final = 4.0
"""The time after which a coordinator repeats a marker request that got no response."""

_FORGETS_S: Final = 2.0
"""The time after which a leader forgets a producer without an open transaction."""

_FORGETS_EVERY_S: Final = 0.5


def is_transaction_replay(plan: Plan) -> bool:
    """Return whether a plan replays a counterexample of the transaction model."""
    return (plan.schedule or {}).get("model") == MODEL


def searched_client(counterexample: TransactionCounterexample, kafka: str) -> str:
    """Return the client library for which the counterexample was found, as in ``--client``."""
    if counterexample.client == LIBRDKAFKA:
        return LIBRDKAFKA
    java = transaction_client(read_client(JAVA, kafka))
    return JAVA if java == counterexample.client else _OLD_JAVA


def transaction_plan(
    counterexample: TransactionCounterexample,
    kafka: str,
    *,
    seed: int = 0,
    driver: str = "local",
    client: str | None = None,
) -> Plan:
    """Return the plan that replays a counterexample on any release.

    Args:
        client: library of the producers, as in ``--client``; None means the library for which the
            counterexample was found.

    Raises:
        UsageError: the counterexample cannot be replayed.
    """
    client = client or searched_client(counterexample, kafka)
    transaction_schedule(counterexample, kafka, transaction_client(read_client(client, kafka)))
    return Plan(
        kafka=kafka,
        driver=driver,
        schedule={"name": counterexample.headline, **counterexample.plain()},
        seed=seed,
        topic=Topic(partitions=1),
        workload=Workload(
            producers=0, consumers=1, acks="all", idempotence=True, transactions=True
        ),
        broker_config=_settings(counterexample),
        client=client,
        wire_clients=True,
    )


def _settings(counterexample: TransactionCounterexample) -> dict[str, str]:
    moves = {step.move for step in counterexample.steps}
    settings = dict(BROKER_CONFIG)
    if "repeat_marker" in moves:
        settings["request.timeout.ms"] = str(int(_REQUEST_S * 1000))
    if "forget" in moves:
        settings["producer.id.expiration.ms"] = str(int(_FORGETS_S * 1000))
        settings["producer.id.expiration.check.interval.ms"] = str(int(_FORGETS_EVERY_S * 1000))
    return settings


def _client_of(plan: Plan) -> str:
    """Return the model's name of the plan's client library."""
    return transaction_client(read_client(plan.client, plan.played_on))


@dataclass(frozen=True, slots=True)
class TransactionReplay:
    """Replays a plan's counterexample, which a search of the transaction model found."""

    counterexample: TransactionCounterexample

    @classmethod
    def of(cls, schedule: dict[str, Any]) -> "TransactionReplay":
        """Return the replay of a plan's schedule."""
        plain = {name: value for name, value in schedule.items() if name != "name"}
        return cls(TransactionCounterexample.from_plain(plain))

    def cast(self, cluster: Cluster, probe: Probe) -> tuple[int, ...]:
        """Wait until the cluster is ready; return the brokers of the partition.

        Raises:
            WaitTimeoutError: a broker has no session in time, or no broker is the controller.
        """
        await_cluster(cluster, probe)
        return tuple(sorted(cluster.brokers)[:_REPLICAS])

    def play(self, context: ScheduleContext) -> None:
        """Execute the counterexample.

        Raises:
            ScheduleNotFollowedError: a step could not be executed, or had an unexpected effect.
        """
        plan = context.plan
        actions = transaction_schedule(self.counterexample, plan.kafka, _client_of(plan))
        with contextlib.ExitStack() as ending:
            player = _TransactionPlayer(context, context.transactional(_WRITER), ending)
            replay_steps(context, actions, player.take, title=lambda action: action.says)
        player.finish()


@dataclass(slots=True)
class _TransactionPlayer:
    context: ScheduleContext
    writer: NamedTransactions
    ending: contextlib.ExitStack
    messages: dict[str, CaughtMessages] = field(default_factory=dict)
    is_open: bool = False
    refused: tuple[str, ...] = ()

    def take(self, action: TransactionAction) -> None:
        """Execute a step, and wait until the log has the length that the model predicts."""
        if action.action == "begin":
            self.writer.begin()
            self.is_open = True
        elif action.action == "send":
            self._send(action)
        elif action.action in ("commit", "abort"):
            self._end(action)
        elif action.action == "given-up":
            self._await(action.held, "client-gone")
        elif action.action == "forgotten":
            self._await_forgotten()
        elif action.action == "release":
            self._release(action)
        elif action.action == "answered":
            self.writer.flush()
        elif action.action == "renew":
            self.writer.renew()
        if action.length is not None:
            self._await_length(action.length)

    def finish(self) -> None:
        """Abort the open transaction, if any; then let another producer commit a record."""
        refusal = self.writer.abort() if self.is_open else ""
        if self.is_open:
            self.context.note(f"after the last step the application aborts: {refusal or 'done'}")
        for record in self.refused:
            error = self.writer.errors.get(record)
            if error is None:
                raise ScheduleNotFollowedError(
                    f"brokers must refuse {record}, but have acknowledged it"
                )
            self.context.note(f"{record} was refused: {error}")
        if refusal:
            self.writer.renew()
            self.context.note(
                "a new producer aborts the transaction that the failed producer left open"
            )
        other = self.context.transactional(_OTHER)
        other.begin()
        other.send(_LAST, 0)
        self.context.note(f"another producer commits {_LAST}; outcome: {other.commit()}")

    def _send(self, action: TransactionAction) -> None:
        self.refused += (action.record,) if action.refused else ()
        if not action.held:
            if not action.refused:
                self.writer.send(action.record, 0)
                return
            self.writer.send_on(action.record, 0)
            self.writer.flush()
            return
        self._hold(action.held, _PRODUCE)
        self.writer.send_on(action.record, 0)
        self._await(action.held, "caught")

    def _end(self, action: TransactionAction) -> None:
        if action.held == END:
            self._hold(END, _END_TXN)
        elif action.held == MARKER:
            to_leader = f"broker-*>broker-{self.context.replicas[0]}"
            self._hold(MARKER, f"WriteTxnMarkers {to_leader} topic={{topic}} partition=0")
        self.is_open = False
        commits = action.action == "commit"
        outcome = self.writer.commit() if commits else self.writer.abort()
        self.context.note(f"{action.action}: {outcome or 'done'}")
        if commits and outcome != OK:
            raise ScheduleNotFollowedError(f"the commit has the outcome {outcome}")
        if action.held == END and not self.messages[END].caught:
            raise ScheduleNotFollowedError(
                "the relay did not hold the transaction's EndTxn request"
            )

    def _release(self, action: TransactionAction) -> None:
        """Forward a held request. Without its sender, wait until the relay drops the response."""
        self.messages[action.held].release("schedule")
        if action.record:
            self.writer.flush()
        else:
            self._await(action.held, "discarded")

    def _hold(self, name: str, message: str) -> None:
        self.messages[name] = self.ending.enter_context(self.context.intercept(f"hold {message}"))

    def _await(self, name: str, event: str) -> None:
        await_event(self.messages[name], event, limit_s=_LIMIT_S)

    def _await_forgotten(self) -> None:
        leader = self.context.replicas[0]
        self.context.until(
            lambda: self.context.probe.producers(leader, self.context.topic, 0),
            lambda producers: not producers,
            what=f"broker {leader} to remove the state of every producer in the partition",
            limit_s=_LIMIT_S,
        )

    def _await_length(self, length: int) -> None:
        leader = self.context.replicas[0]
        await_replicas(
            self.context,
            lambda seen: seen[leader].leo == length,
            what=f"the log of broker {leader} to have {length} entries",
            limit_s=_LIMIT_S,
            brokers=(leader,),
        )


def records_reproduced(plan: Plan, anomalies: set[tuple[str, str]]) -> bool | None:
    """Compare a run's anomalies with the predicted anomalies.

    Args:
        plan: the plan of a replay.
        anomalies: kind and value of each anomaly that breaks a promise of Kafka.

    Returns:
        None if the anomalies differ from the prediction. Otherwise, whether an error was predicted.
    """
    counterexample = TransactionReplay.of(plan.schedule or {}).counterexample
    fate = predict_records(counterexample, plan.kafka, _client_of(plan))
    expected = {("lost-write", record) for record in fate.lost}
    expected |= {("G1a", record) for record in fate.published}
    expected |= {("hanging-transaction", record) for record in fate.hanging}
    expected |= {("repeated-sequence", record) for record in fate.repeated}
    return fate.harms if anomalies == expected else None
