"""Execute a schedule's steps on real brokers, and track paused and dead brokers."""

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from highwater.checkers.coverage.observed_situations import QUIET_NS
from highwater.checkers.model.schedules.schedule import Schedule, ScheduleStep
from highwater.clusters.core.interfaces import PartitionState, UnreachableError
from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import COORDINATION, RelayRule, between
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.faults.storage import empty_disk
from highwater.nemesis.model_replay.expectations import ReplicaAssignment, differences
from highwater.nemesis.model_replay.session_keeper import SessionKeeper
from highwater.nemesis.stories.helpers import await_leads
from highwater.nemesis.stories.story import FETCH_WAIT_S

STEP_LIMIT_S: Final = 30.0
_SITUATION_LIMIT_S: Final = 4.0
_ROUNDS: Final = 3
"""The rounds of the observer that make a situation certain. The first round may have begun before
the situation, and two equal responses show that nothing changed between them."""
_DRAINED_S: Final = 0.15
_POLL_S: Final = 0.01


class Player:
    """Executes a schedule from the model.

    Replicas have the model's numbers; ``broker`` returns a replica's real broker.
    """

    def __init__(self, context: ScheduleContext, schedule: Schedule) -> None:
        self._context = context
        self._cast = ReplicaAssignment(dict(zip(schedule.order, context.replicas, strict=True)))
        self._frozen: dict[int, float] = {}
        self._woken: dict[int, float] = {}
        self._paused: set[int] = set()
        self._down: set[int] = set()
        self._expired: set[int] = set()
        self._sessions = SessionKeeper(context.cluster)

    def broker(self, number: int) -> int:
        """Return the real broker of a replica."""
        return self._cast.brokers[number]

    def begin(self) -> None:
        """Prepare the first step; a hook for subclasses."""

    def take(self, step: ScheduleStep) -> None:
        """Pause the brokers that must not act, execute the step, and wait for the expected state.

        Raises:
            HarnessError: the step cannot be executed, or the brokers report another state.
        """
        if step.action == "observe":
            self._observe(step)
            return
        dying = {
            number for number in self._frozen if step.action == "kill" and number == step.broker
        }
        self._hold(step.held | dying)  # do not resume a paused broker before its kill
        if step.action in {"expire", "stop", "cancel"}:
            self._line_up(step.expect.leader)
        command = _COMMANDS.get(step.action)
        if command is not None:
            command(self, step)
        self._await_expected(step, STEP_LIMIT_S)
        self._require_sessions()

    def _await_expected(self, step: ScheduleStep, limit_s: float) -> None:
        await_condition(
            lambda: differences(self._context, self._cast, step.expect, silent=self._silent),
            lambda differences: not differences,
            what="the next step",
            limit_s=limit_s,
            every_s=_POLL_S,
            passing=(UnreachableError,),
        )

    def _observe(self, step: ScheduleStep) -> None:
        """Wait until the observer has queried every broker in the expected situation.

        Meanwhile all brokers that the schedule has not paused respond, but no byte passes between
        brokers. What they have sent meanwhile is lost, because their connections are reset. If the
        situation is not observed, record a note, because the other steps are still possible.
        """
        context, network = self._context, self._network
        before_step = frozenset(self._frozen) - self._paused
        links = between(network.brokers, network.brokers)
        rules = [RelayRule(kind="cut", links=links)]
        if context.cluster.release.coordination == "kraft":
            decisions = frozenset((COORDINATION, broker) for broker in network.brokers)
            rules.append(RelayRule(kind="hold", what="leadership", links=decisions))
            links |= decisions
        with network.under(*rules):
            self._hold(step.held)
            try:
                self._await_expected(step, _SITUATION_LIMIT_S)
                context.await_observed(_ROUNDS)
            except (WaitTimeoutError, ScheduleNotFollowedError) as error:
                context.note(f"not observed in the situation: {error.message}")
            else:
                context.hold(QUIET_NS / 1e9)
            self._hold(before_step)
            with network.under(RelayRule(kind="reset", links=links)):
                pass

    @property
    def _network(self) -> Network:
        if self._context.cluster.network is None:
            raise HarnessError("this replay holds messages, but the cluster runs without the relay")
        return self._context.cluster.network

    def finish(self) -> None:
        """End the sessions of dead brokers, so that these brokers can start again at once."""
        self._sessions.close()
        for number in self._down:
            with contextlib.suppress(UnreachableError):
                self._context.cluster.end_session(self.broker(number))

    @property
    def _silent(self) -> set[int]:
        """Return the replicas that do not respond, because they are paused or dead."""
        return set(self._frozen) | self._down

    def _leader(self) -> int:
        """Return the replica that the controller reports as leader; -1 without a leader."""
        return self._cast.number(self._context.state().leader)

    def _live(self) -> frozenset[int]:
        """Return the brokers that have a session."""
        return self._context.until(
            self._context.probe.live_brokers, what="a response that lists brokers with sessions"
        )

    def _hold(self, numbers: frozenset[int]) -> None:
        """Pause these replicas; resume all others, except those that a pause step has paused.

        The leader is paused first, because the others fetch from it.
        """
        frozen = (numbers | self._paused) - self._down
        late = frozen - set(self._frozen)
        if late:
            leader = self._leader()
            for number in sorted(late, key=lambda number_: (number_ != leader, number_)):
                self._context.nemesis.inject("pause", self.broker(number))
                self._frozen[number] = self._context.clock()
                if number not in self._expired:
                    self._sessions.keep(self.broker(number))
        for number in sorted(set(self._frozen) - frozen):
            del self._frozen[number]
            self._sessions.release(self.broker(number))
            self._context.nemesis.heal(self.broker(number))
            self._woken[number] = self._context.clock()

    def _line_up(self, new_leader: int | None) -> None:
        """Make the schedule's next leader the controller's first choice in an election."""
        if new_leader is not None and new_leader >= 0:
            self._context.cluster.set_next_leader(
                self._context.topic, self._context.partition, self.broker(new_leader)
            )

    def send(self, step: ScheduleStep) -> None:
        """Send records to the step's broker or the leader; paused followers must not get them."""
        context = self._context
        number = self._leader() if step.broker is None else step.broker
        if number < 0:
            raise ScheduleNotFollowedError(f"no broker leads {context.topic}-{context.partition}")
        self._drain(number)
        address = context.cluster.brokers[self.broker(number)].address
        context.direct.send_batch((step.record or "").split(), context.partition, address=address)

    def _drain(self, leader: int) -> None:
        """Wait until the leader has responded to every fetch of a paused follower.

        Otherwise its response would contain the next record, and the follower would append this
        record when it resumes. After ``FETCH_WAIT_S`` the leader sends an empty response.
        """
        followers = set(self._frozen) - {leader}
        if followers and leader not in self._frozen:
            since = max(self._frozen[follower] for follower in followers)
            until = max(since, self._woken.get(leader, since)) + FETCH_WAIT_S + _DRAINED_S
            self._context.hold(until - self._context.clock())

    def kill(self, step: ScheduleStep) -> None:
        """Kill the step's broker, even if it is paused. Only ``expire`` ends its session."""
        number = broker_of(step)
        self._context.nemesis.inject("kill", self.broker(number))
        self._gone(number)
        if number not in self._expired:
            self._sessions.keep(self.broker(number))

    def stop(self, step: ScheduleStep) -> None:
        """Shut the step's broker down cleanly.

        On KRaft the broker ends only when every broker with a session has applied the controller's
        decision. So paused brokers are resumed as soon as the controller has decided, and sessions
        of dead brokers may end meanwhile.
        """
        number = broker_of(step)
        context = self._context
        dead = {self.broker(down) for down in self._down - self._expired}
        for broker in dead:
            self._sessions.release(broker)
        with ThreadPoolExecutor(1, thread_name_prefix="stop") as pool:
            stopping = pool.submit(context.nemesis.inject, "stop", self.broker(number))
            if self._frozen and context.cluster.release.coordination == "kraft":
                context.until(
                    lambda: (
                        None
                        if stopping.done()
                        else context.probe.partition(context.topic, context.partition)
                    ),
                    lambda state: state is None or self._left(number, state),
                    what=f"the controller to accept the shutdown of broker {self.broker(number)}",
                    limit_s=STEP_LIMIT_S,
                )
                self._hold(frozenset())
            stopping.result()
        for broker in dead and dead & self._live():
            self._sessions.keep(broker)
        self._gone(number)
        self._expired.add(number)

    def _left(self, number: int, state: PartitionState) -> bool:
        """Return whether a replica is neither the leader nor in the ISR."""
        broker = self.broker(number)
        return state.leader != broker and (broker not in state.isr or state.leader < 0)

    def _gone(self, number: int) -> None:
        self._down.add(number)
        self._paused.discard(number)
        self._frozen.pop(number, None)
        self._sessions.release(self.broker(number))

    def pause(self, step: ScheduleStep) -> None:
        """Pause the step's broker until a later step resumes it."""
        self._paused.add(broker_of(step))
        self._hold(step.held)

    def resume(self, step: ScheduleStep) -> None:
        """Resume the step's broker, unless the broker must not act in this step."""
        self._paused.discard(broker_of(step))
        self._hold(step.held)

    def start(self, step: ScheduleStep) -> None:
        """Start the step's broker on its old disk, after its old session has ended."""
        number = broker_of(step)
        self._context.nemesis.heal(self.broker(number))
        self._down.discard(number)
        self._expired.discard(number)

    def move(self, step: ScheduleStep) -> None:
        """Move leadership to the step's broker by a request to the cluster."""
        self._context.cluster.move_leader(
            self._context.topic, self._context.partition, self.broker(broker_of(step))
        )

    def elect_unclean(self, _: ScheduleStep) -> None:
        """Request an unclean election; the controller elects the first live replica."""
        self._context.cluster.elect_unclean(self._context.topic, self._context.partition)

    def wipe(self, step: ScheduleStep) -> None:
        """Empty the disk of a stopped broker; healing starts the broker on the empty disk."""
        context, broker = self._context, self.broker(broker_of(step))
        effect = empty_disk(context.cluster.brokers[broker], context.plan.topic)
        context.fault_log.fault("wipe", "inject", effect.says, broker, removed=effect.rows)

    def reassign(self, step: ScheduleStep) -> None:
        """Request a reassignment; it has ended when the ISR is as the step expects."""
        context, replicas = self._context, [self.broker(number) for number in step.replicas]
        context.cluster.reassign(context.topic, context.partition, replicas, awaited=False)

    def cancel(self, _: ScheduleStep) -> None:
        """Cancel the reassignment in progress."""
        self._context.cluster.cancel_reassignment(self._context.topic, self._context.partition)

    def expire(self, step: ScheduleStep) -> None:
        """End the session of the step's broker, and wait until it has ended."""
        broker = self.broker(broker_of(step))
        self._expired.add(broker_of(step))
        self._sessions.release(broker)
        if broker in self._live():
            self._sessions.end(broker)
        self._context.until(
            self._context.probe.live_brokers,
            lambda live: broker not in live,
            what=f"the session of broker {broker} to end",
            limit_s=STEP_LIMIT_S,
        )

    def learn(self, step: ScheduleStep) -> None:
        """Wait until a broker knows whether the controller has made it the leader."""
        number = broker_of(step)
        broker = self.broker(number)
        if number in self._silent:
            raise ScheduleNotFollowedError(
                f"broker {broker} is paused or dead, and cannot learn the decision"
            )
        leads = self._leader() == number
        await_leads(self._context, broker, leads=leads, limit_s=STEP_LIMIT_S)

    def _require_sessions(self) -> None:
        """Make sure that no broker was paused for so long that its session ended.

        Raises:
            ScheduleNotFollowedError: the session of a paused broker has ended.
        """
        silent = set(self._frozen) - self._expired
        if not silent:
            return
        live = self._live()
        ended = sorted(self.broker(number) for number in silent if self.broker(number) not in live)
        if ended:
            raise ScheduleNotFollowedError(
                f"broker {ended[0]} was paused for so long that its session ended"
            )


_COMMANDS: Final[Mapping[str, Callable[[Player, ScheduleStep], None]]] = {
    "send": Player.send,
    "kill": Player.kill,
    "stop": Player.stop,
    "pause": Player.pause,
    "resume": Player.resume,
    "start": Player.start,
    "move": Player.move,
    "wipe": Player.wipe,
    "elect-unclean": Player.elect_unclean,
    "reassign": Player.reassign,
    "cancel": Player.cancel,
    "expire": Player.expire,
    "learn": Player.learn,
}


def broker_of(step: ScheduleStep) -> int:
    """Return a step's broker as a replica number; raise ScheduleNotFollowedError without one."""
    if step.broker is None:
        raise ScheduleNotFollowedError(f"the step {step.action} names no broker")
    return step.broker
