"""Execute a schedule message by message: the relay holds messages, and each step forwards some."""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Final

from highwater.checkers.model.schedules.schedule import Schedule, ScheduleStep
from highwater.clusters.core.interfaces import PartitionState
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import ANY_BROKER
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.model_replay.message_gate import LIMIT_S, MessageGate
from highwater.nemesis.model_replay.step_player import STEP_LIMIT_S, Player, broker_of

_FETCH: Final = APIS["Fetch"].key
_QUESTION: Final = APIS["OffsetForLeaderEpoch"].key
_DECISION: Final = APIS["LeaderAndIsr"].key
_HOLD: Final = "hold-message"
_POLL_S: Final = 0.01
_FETCH_EVERY_S: Final = 2.0
_ENDED_S: Final = 5.0
"""The seconds in which a follower's stopped fetcher must send no fetch: 50 times the wait between
two fetches."""
LAG_S: Final = 8.0
"""The replica lag limit for a schedule in which a lagging follower leaves the ISR; longer than all
other steps together."""

_PATIENCE_MS: Final = "300000"

SETTINGS: Final[Mapping[str, str]] = {
    # A leader responds to a fetch at once, with its HW from before the fetch, as in the model.
    "replica.fetch.wait.max.ms": "0",
    "replica.fetch.backoff.ms": "100",
    # No client's request times out while the relay holds it.
    "request.timeout.ms": _PATIENCE_MS,
    "replica.socket.timeout.ms": _PATIENCE_MS,
    "controller.socket.timeout.ms": _PATIENCE_MS,
    "replica.lag.time.max.ms": _PATIENCE_MS,
}
"""Broker settings for a replay in which the relay forwards messages one by one."""


class MessagePlayer(Player):
    """Executes a schedule; followers' requests and controller decisions wait at gates."""

    def __init__(self, context: ScheduleContext, schedule: Schedule) -> None:
        super().__init__(context, schedule)
        self._schedule = schedule
        self._first_leader = schedule.order[0]
        self._decisions: dict[int, MessageGate] = {}
        self._fetches: dict[tuple[int, int], MessageGate] = {}
        self._answers: dict[int, MessageGate] = {}
        self._epochs: dict[int, int | None] = {}
        self._applied: dict[int, int] = {}
        self._starved: set[int] = set()

    def begin(self) -> None:
        """Close every gate, and wait until each follower's next fetch waits at its gate.

        Raises:
            HarnessError: the cluster runs without the relay, or a follower does not fetch.
        """
        network, numbers = self._network, sorted(self._cast.brokers)
        for number in numbers:
            rule = MessageRule(
                action="hold",
                api=_DECISION,
                source=ANY_BROKER,
                target=self.broker(number),
                times=0,
                topics=frozenset((self._context.topic,)),
            )
            says = f"decisions to broker {self.broker(number)}"
            self._decisions[number] = MessageGate(network, says, rule)
        for number, leader in permutations(numbers, 2):
            source, target = self.broker(number), self.broker(leader)
            self._fetches[number, leader] = MessageGate(
                network,
                f"fetches of broker {source} from broker {target}",
                *(
                    MessageRule(action="hold", api=api, source=source, target=target, times=0)
                    for api in (_FETCH, _QUESTION)
                ),
            )
        for number in numbers:
            if number != self._first_leader:
                self._fetches[number, self._first_leader].await_message()
        self._epochs[0] = self._context.state().leader_epoch

    def take(self, step: ScheduleStep) -> None:
        """Execute the step, and wait for the expected state.

        Raises:
            HarnessError: the step cannot be executed, or the brokers report another state.
        """
        if step.action in {"expire", "stop"}:
            self._line_up(step.expect.leader)
        _COMMANDS[step.action](self, step)
        self._await_expected(step, STEP_LIMIT_S)
        if step.decision is not None and step.action != "learn":
            self._epochs[step.decision] = self._context.state().leader_epoch

    def finish(self) -> None:
        """Open every gate."""
        self._open()
        super().finish()

    def _open(self) -> None:
        for gates in (self._decisions, self._fetches, self._answers):
            for gate in gates.values():
                gate.open()
        while self._starved:
            broker = self._starved.pop()
            self._context.fault_log.fault(_HOLD, "heal", f"broker {broker} can fetch again", broker)

    def run(self, _: ScheduleStep) -> None:
        """Open every gate, so that all messages are forwarded from now on."""
        self._open()

    def send(self, step: ScheduleStep) -> None:
        """Send records to a broker, even if the controller has elected another leader."""
        address = self._context.cluster.brokers[self.broker(broker_of(step))].address
        self._context.direct.send_batch((step.record or "").split(), 0, address=address)

    def kill(self, step: ScheduleStep) -> None:
        """Kill the step's broker, and drop the broker's requests that wait at gates."""
        super().kill(step)
        self._forget(broker_of(step))

    def stop(self, step: ScheduleStep) -> None:
        """Shut the step's broker down cleanly, and drop its requests that wait at gates."""
        super().stop(step)
        self._forget(broker_of(step))

    def expire(self, step: ScheduleStep) -> None:
        """End the session of the step's broker; drop decisions that wait for it."""
        super().expire(step)
        self._decisions[broker_of(step)].lose()

    def failover(self, _: ScheduleStep) -> None:
        """Kill the controller; drop decisions that this controller has not delivered.

        All brokers with a replica are paused until a broker without a replica becomes the
        controller. For a controller with a replica, the relay could not hold the decisions that it
        sends to itself.
        """
        context, cluster = self._context, self._context.cluster
        controller = context.controller()
        frozen = [self.broker(n) for n in self._cast.brokers if n not in self._silent]
        for broker in frozen:
            context.nemesis.inject("pause", broker)
        context.nemesis.inject("kill", controller)
        for gate in self._decisions.values():
            gate.lose()
        cluster.end_session(controller)
        others = set(cluster.brokers) - {self.broker(n) for n in self._cast.brokers} - {controller}
        context.until(
            context.probe.controller,
            lambda broker: broker in others,
            what="a broker without a replica to become the controller",
            limit_s=STEP_LIMIT_S,
        )
        for broker in frozen:
            context.nemesis.heal(broker)
        for number, gate in self._decisions.items():
            if number not in self._silent:
                gate.await_message()  # the next controller sends only the present state

    def register(self, step: ScheduleStep) -> None:
        """Wait until the step's broker has a session again."""
        broker = self.broker(broker_of(step))
        self._context.until(
            self._context.probe.live_brokers,
            lambda live: broker in live,
            what=f"broker {broker} to register again",
            limit_s=STEP_LIMIT_S,
        )

    def wipe(self, step: ScheduleStep) -> None:
        """Kill the step's broker, empty its disk, and drop its requests that wait at gates."""
        number = broker_of(step)
        self._context.nemesis.inject("wipe", self.broker(number))
        self._gone(number)
        self._forget(number)

    def _forget(self, number: int) -> None:
        for pair, gate in self._fetches.items():
            if pair[0] == number:
                gate.lose()

    def learn(self, step: ScheduleStep) -> None:
        """Forward a decision of the controller to a broker, after all earlier decisions.

        With ZooKeeper, a move of leadership consists of two decisions (docs/replay.md).
        """
        number = broker_of(step)
        self._learn_up_to(number, self._epochs[step.decision or 0] or 0)
        self._applied[number] = step.decision or 0

    def _learn_up_to(self, number: int, epoch: int) -> None:
        gate = self._decisions[number]
        while True:
            row = gate.await_message()
            if row["epoch"] > epoch:
                raise ScheduleNotFollowedError(
                    f"the next decision for broker {self.broker(number)} has epoch "
                    f"{row['epoch']} and not {epoch}"
                )
            self._apply(number, gate)
            if row["epoch"] == epoch:
                return

    def _apply(self, number: int, gate: MessageGate) -> None:
        """Forward one decision to a broker; drop this broker's requests that wait at gates.

        To apply a decision, a broker may have to stop a fetcher. The fetcher stops when it gets a
        response or its connection closes, so a held request would block the decision.
        """
        answered = gate.count("answered") + 1
        gate.let_pass()
        gates = [self._fetches[pair] for pair in self._fetches if pair[0] == number]

        def look() -> int:
            count = gate.count("answered")
            for fetches in gates:
                if fetches.in_hand():
                    fetches.lose()
            return count

        await_condition(
            look,
            lambda count: count >= answered,
            what=f"broker {self.broker(number)} to apply a decision",
            limit_s=LIMIT_S,
            every_s=_POLL_S,
        )

    def fetch(self, step: ScheduleStep) -> None:
        """Forward one fetch and its response; wait for the follower's next request."""
        gate = self._ask(step, _FETCH)
        gate.await_message()

    def end_fetch(self, step: ScheduleStep) -> None:
        """Forward one fetch whose response stops the fetcher, and check that no fetch follows.

        Raises:
            ScheduleNotFollowedError: the follower sends another fetch.
        """
        gate = self._ask(step, _FETCH)
        self._context.hold(_ENDED_S)
        if gate.in_hand():
            raise ScheduleNotFollowedError(
                f"broker {self.broker(broker_of(step))} must stop fetching, but still fetches"
            )

    def truncate(self, step: ScheduleStep) -> None:
        """Forward the follower's request for the end of its last epoch, if it sends one."""
        gate = self._gate(step)
        if gate.await_message()["api"] == _QUESTION:
            self._ask(step, _QUESTION)
            gate.await_message()

    def attempt(self, step: ScheduleStep) -> None:
        """Forward a request that the receiver must refuse."""
        self._ask(step, None)

    def ask(self, step: ScheduleStep) -> None:
        """Forward one fetch, and hold its response."""
        number, asks = broker_of(step), step.asks
        rule = MessageRule(
            action="hold",
            api=_FETCH,
            side="answer",
            source=self.broker(asks or 0),
            target=self.broker(number),
            times=0,
        )
        says = f"responses of broker {rule.source} to broker {rule.target}"
        answers = self._answers[number] = MessageGate(self._network, says, rule)
        self._require(self._gate(step), _FETCH)
        self._gate(step).let_pass()
        answers.await_message()

    def receive(self, step: ScheduleStep) -> None:
        """Forward a held response to its follower, even if the follower now has another leader."""
        if step.asks is None:
            self._answers.pop(broker_of(step)).open()
            return
        gate = self._gate(step)
        caught = gate.count("caught")
        self._answers.pop(broker_of(step)).open()
        gate.await_message(caught=caught + 1)

    def lag(self, step: ScheduleStep) -> None:
        """Let the other followers fetch until the leader drops the lagging follower from the ISR.

        First put the next leader first in the partition's assignment (docs/replay.md), because now
        every replica is still in the ISR.
        """
        context, leader = self._context, broker_of(step)
        follower = self.broker(-1 if step.asks is None else step.asks)
        others = [
            gate
            for pair, gate in self._fetches.items()
            if pair[1] == leader and pair[0] != step.asks and gate.in_hand()
        ]
        self._prefer_heir(step)
        if step.asks not in self._silent:
            says = f"the relay holds every fetch of broker {follower}"
            context.fault_log.fault(_HOLD, "inject", says, follower)
            self._starved.add(follower)
        fetched = float("-inf")

        def look() -> PartitionState:
            nonlocal fetched
            state = context.probe.partition(context.topic, 0)
            if follower in state.isr and context.clock() >= fetched + _FETCH_EVERY_S:
                fetched = context.clock()
                for gate in others:
                    caught = gate.count("caught")
                    gate.await_message()
                    gate.let_pass()
                    gate.await_message(caught=caught + 1)
            return state

        context.until(
            look,
            lambda state: follower not in state.isr,
            what=f"broker {self.broker(leader)} to drop broker {follower} from the ISR",
            limit_s=STEP_LIMIT_S,
        )

    def _prefer_heir(self, step: ScheduleStep) -> None:
        """Put the next leader first in the partition's assignment; this starts a new leader epoch.

        Forward this epoch only to brokers that have applied the newest decision.
        """
        steps = self._schedule.steps
        rest = steps[steps.index(step) :]
        new_leader = next((later.broker for later in rest if later.action == "move"), None)
        if new_leader is None:
            return
        order = [new_leader, *(number for number in self._schedule.order if number != new_leader)]
        brokers = [self.broker(number) for number in order]
        context, newest = self._context, max(self._epochs)
        before = self._epochs[newest] or 0
        context.cluster.reassign(context.topic, 0, brokers)
        epoch = context.until(
            lambda: context.probe.partition(context.topic, 0).leader_epoch or 0,
            lambda seen: seen > before,
            what="the reassignment to start a new leader epoch",
            limit_s=LIMIT_S,
        )
        for number in self._decisions:
            if self._applied.get(number, 0) == newest and number not in self._silent:
                self._learn_up_to(number, epoch)

    def _gate(self, step: ScheduleStep) -> MessageGate:
        if step.asks is None:
            raise ScheduleNotFollowedError(f"{step.action} names no broker")
        return self._fetches[broker_of(step), step.asks]

    def _require(self, gate: MessageGate, api: int | None) -> None:
        row = gate.await_message()
        if api not in {None, row["api"]}:
            wrong = (
                "asks the leader for the end of its epoch" if row["api"] == _QUESTION else "fetches"
            )
            raise ScheduleNotFollowedError(f"broker {row['source']} {wrong} instead")

    def _ask(self, step: ScheduleStep, api: int | None) -> MessageGate:
        gate = self._gate(step)
        self._require(gate, api)
        answered = gate.count("answered")
        gate.let_pass()
        gate.await_count("answered", answered + 1)
        return gate


_COMMANDS: Final[Mapping[str, Callable[[MessagePlayer, ScheduleStep], None]]] = {
    "send": MessagePlayer.send,
    "move": MessagePlayer.move,
    "kill": MessagePlayer.kill,
    "stop": MessagePlayer.stop,
    "pause": MessagePlayer.pause,
    "resume": MessagePlayer.resume,
    "register": MessagePlayer.register,
    "start": MessagePlayer.start,
    "expire": MessagePlayer.expire,
    "lag": MessagePlayer.lag,
    "learn": MessagePlayer.learn,
    "fetch": MessagePlayer.fetch,
    "truncate": MessagePlayer.truncate,
    "ask": MessagePlayer.ask,
    "receive": MessagePlayer.receive,
    "try": MessagePlayer.attempt,
    "run": MessagePlayer.run,
    "failover": MessagePlayer.failover,
    "end-fetch": MessagePlayer.end_fetch,
    "wipe": MessagePlayer.wipe,
    "elect-unclean": MessagePlayer.elect_unclean,
}
