"""A script: a scenario in a few lines of text, which the model executes before any broker runs.

The functions here are plain Python, and apply the rules of one release. The lines of a script:

    settle m0 m1 m2     send each record to A, and let all brokers catch up
    send m3 to A        no follower fetches it before the script says so
    fetch B C           one fetch each, in this order
    let C               C takes all steps that need no command: learn, truncate, fetch
    follow C            C learns its leader, and truncates its log, but fetches nothing
    kill A, pause A, resume A, start A, stop B, checkpoint A
    cut A to 3          a fault removes A's records from offset 3 on, while it is dead
    expire A for B      A's session ends and B is elected; without ``for``, no broker is elected
    retry m3 to B       the producer sends m3 again, unless m3 was acknowledged
    heal                heal everything, and continue until all brokers are idle
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State
from highwater.checkers.model.protocol.invariants import at_rest
from highwater.checkers.model.protocol.moves import Move, apply, attempt
from highwater.checkers.model.protocol.rules_by_release import SWITCHES, Rules
from highwater.checkers.model.protocol.scope import (
    BOUNDS,
    K_BROKERS,
    Acks,
    Scope,
    constants,
    initial,
)
from highwater.checkers.model.protocol.state_layout import (
    Fetcher,
    ProcessState,
    ProducerStatus,
    block,
    get,
    leader_of,
    newest,
    put,
)
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.report_types import PartitionOutcome
from highwater.checkers.model.schedules.schedule import OLD_FORMAT, Schedule
from highwater.harness.base.errors import HarnessError

_ALONE: Final = (Move.LEARN, Move.TRUNCATE, Move.FETCH, Move.CONFIRM)
_FOLLOWING: Final = (Move.LEARN, Move.TRUNCATE)
_MENDED: Final = (Move.RESUME, Move.REGISTER, Move.START)
_TURNS_MAX: Final = 200


class ScriptError(HarnessError):
    """A script contains a step that the model cannot take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """The rules and settings with which a script is executed.

    Attributes:
        unclean: True if unclean elections are allowed, and the release does not ignore the setting.
        old_format: whether records are written without leader epochs.
    """

    rules: Rules
    acks: Acks = "all"
    min_isr: int = 1
    unclean: bool = False
    old_format: bool = False


def play(script: str, setting: ScriptSettings) -> PartitionOutcome:
    """Return the outcome of the records of a script; ``logs`` has the logs of A, B and C.

    Raises:
        ScriptError: the model cannot take a step; the message names the step.
    """
    stage = ScriptState.of(script, setting)
    for _ in perform(script, stage):
        pass
    return stage.outcome()


def perform(script: str, stage: "ScriptState") -> Iterator[str]:
    """Execute a script line by line; yield each line when ``stage`` has executed it.

    Raises:
        ScriptError: the model cannot take a step.
    """
    for line in _lines(script):
        verb, *words = line.split()
        try:
            done = _VERBS[verb](stage, words)
        except KeyError as error:
            raise ScriptError(
                f"script line {line!r}: the model knows no command or broker {error.args[0]!r}"
            ) from error
        if not done:
            raise ScriptError(
                f"script line {line!r}: the model cannot take this step in its present state"
            )
        yield line


def predict(schedule: Schedule, rules: Rules, *, unclean: bool) -> PartitionOutcome:
    """Return the predicted outcome of a schedule's records, after all faults are healed.

    Args:
        schedule: a schedule with ``moves``.
        rules: the rules of the release that executes the schedule.
        unclean: True if unclean elections are allowed, and the release does not ignore the setting.

    Raises:
        ScriptError: the brokers do not become idle, or the controller makes more decisions than a
            state has space for.
    """
    sends = sum(
        count if kind == Move.BATCH else kind == Move.SEND for kind, _, count in schedule.moves
    )
    scope = Scope(
        brokers=schedule.replicas,
        records=max(1, sends),
        failures=9,
        moves=9,
        late=9,
        batch=max((row[2] for row in schedule.moves if row[0] == Move.BATCH), default=1),
        failovers=BOUNDS["failovers"][1],
        wipes=BOUNDS["wipes"][1],
        joins=BOUNDS["joins"][1],
        reassignments=BOUNDS["reassignments"][1],
        interrupts=True,
        acks=schedule.acks,
        min_isr=schedule.min_isr,
        unclean=unclean,
        old_format=OLD_FORMAT.items() <= schedule.settings.items(),
        by=schedule.by,
    )
    stage = ScriptState(state=initial(scope), k=constants(scope, rules))
    stage.follow(schedule.moves)
    if not stage.heal():
        raise ScriptError("the model's replicas do not become idle after the schedule")
    return stage.outcome()


def remedies(
    tell: Callable[[Rules], PartitionOutcome], rules: Rules
) -> tuple[tuple[str, ...], ...]:
    """Return the smallest sets of switches with which no record is lost and no log diverges.

    Args:
        tell: returns the outcome of a script under given rules.
        rules: the rules of the release.

    Returns:
        Every single switch that suffices; if no single switch suffices, every pair that suffices.
    """
    # ``kraft`` is no rule of replication: other rules depend on it.
    off = [name for name in SWITCHES if not getattr(rules, name) and name != "kraft"]
    for count in (1, 2):
        sets = combinations(off, count)
        remedies = tuple(names for names in sets if _prevents(tell, rules, names))
        if remedies:
            return remedies
    return ()


def _prevents(
    tell: Callable[[Rules], PartitionOutcome], rules: Rules, names: tuple[str, ...]
) -> bool:
    """Return whether no record is lost and no log diverges with these switches on."""
    try:
        outcome = tell(replace(rules, **dict.fromkeys(names, True)))
    except ScriptError:
        return False
    return not outcome.lost and not outcome.forked


def _lines(script: str) -> Iterator[str]:
    return (line.strip() for line in script.splitlines() if line.strip())


def _records(script: str) -> int:
    """Return the largest number of records that a script can send."""
    steps = (line.split() for line in _lines(script))
    return sum(
        len(words) - 1 if words[0] == "settle" else words[0] in ("send", "retry") for words in steps
    )


@dataclass(slots=True, kw_only=True)
class ScriptState:
    """The state of the model while a script is executed, and the names of its records."""

    state: State
    k: Constants
    names: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, script: str, setting: ScriptSettings) -> "ScriptState":
        """Return the state before the script: empty logs, and A leads."""
        scope = Scope(
            records=max(1, _records(script)),
            failures=9,
            moves=9,
            late=0,
            acks=setting.acks,
            min_isr=setting.min_isr,
            unclean=setting.unclean,
            old_format=setting.old_format,
        )
        return cls(state=initial(scope), k=constants(scope, setting.rules))

    def take(self, kind: Move, b: int, other: int = 0) -> bool:
        """Take one step. If it is impossible, return False and leave the state unchanged."""
        after = self.state.copy()
        if not apply(after, self.k, int(kind), b, other):
            return False
        self._keep(after)
        return True

    def _keep(self, after: State) -> None:
        if after[layout.FLAGS] & layout.FLAG_OVERFLOW:
            decisions = after[layout.DECISIONS]
            raise ScriptError(
                f"the controller made more decisions than the model can store ({decisions})"
            )
        self.state = after

    def send(self, name: str, b: int) -> bool:
        """Send a record."""
        self.names.append(name)
        return self.take(Move.SEND, b)

    def acknowledged(self, name: str) -> bool:
        """Return whether a leader has acknowledged a record, at any attempt to send it."""
        return any(
            self.state[layout.STATUS + number] == ProducerStatus.ACKNOWLEDGED
            for number, sent in enumerate(self.names)
            if sent == name
        )

    def let(self, brokers: tuple[int, ...], moves: tuple[Move, ...] = _ALONE) -> bool:
        """Let brokers take all steps that need no command, until nothing changes; return True."""
        for _ in range(_TURNS_MAX):
            before = self.state.copy()
            for b in brokers:
                for kind in moves:
                    self.take(kind, b)
            if (self.state == before).all():
                return True
        raise ScriptError(f"the brokers do not become idle within {_TURNS_MAX} turns")

    def heal(self) -> bool:
        """Heal all faults; return whether all brokers are idle afterwards."""
        for _ in range(_TURNS_MAX):
            before = self.state.copy()
            brokers = tuple(range(int(self.k[K_BROKERS])))
            for b in brokers:
                for kind in _MENDED:
                    self.take(kind, b)
                # The session of a dead broker ends, and a successor is elected if there is one.
                successors = [*(other for other in brokers if other != b), b]
                any(self.take(Move.EXPIRE, b, other) for other in successors)
            self.let(brokers)
            if (self.state == before).all():
                break
        return at_rest(self.state, self.k) or self._has_ended()

    def _has_ended(self) -> bool:
        """Return whether a follower's fetcher has ended for good; it then stays out of the ISR."""
        brokers = range(int(self.k[K_BROKERS]))
        return any(get(self.state, b, layout.FETCHER) == Fetcher.ENDED for b in brokers)

    def follow(self, moves: Iterable[tuple[int, int, int]]) -> None:
        """Take moves from a search under other rules; skip each move that these rules forbid.

        The records get the names m1, m2, ... in the order in which they are sent.
        """
        for row in moves:
            after = attempt(self.state, self.k, row)
            if after is not None:
                self._keep(after)
                while len(self.names) < after[layout.SENT]:
                    self.names.append(f"m{len(self.names) + 1}")

    def cut(self, b: int, end: int) -> bool:
        """Remove the end of a dead broker's log, as a fault does. Kafka itself never does this."""
        leo = get(self.state, b, layout.LEO)
        if get(self.state, b, layout.PROCESS) != ProcessState.DEAD or end > leo:
            return False
        for offset in range(end, leo):
            put(self.state, b, layout.LOG + offset, 0)
        put(self.state, b, layout.LEO, end)
        put(self.state, b, layout.HW, min(get(self.state, b, layout.HW), end))
        return True

    def log(self, b: int) -> tuple[str, ...]:
        """Return the names of the records in a replica's log."""
        return tuple(self.names[(entry & 7) - 1] for entry in self._entries(b) if entry & 7)

    def _entries(self, b: int) -> list[int]:
        first = block(b) + layout.LOG
        return [int(entry) for entry in self.state[first : first + get(self.state, b, layout.LEO)]]

    def outcome(self) -> PartitionOutcome:
        """Return the acknowledged records that the leader lacks, and the diverging offsets."""
        leader = leader_of(self.state, newest(self.state))
        logs = [self.log(b) for b in range(3)]
        leader_log = set(logs[leader]) if leader >= 0 else set()
        lost = {name for name in self.names if self.acknowledged(name)} - leader_log
        entries = [self._entries(b) for b in range(3)]
        forked = [
            offset
            for offset in range(max(map(len, entries)))
            if len({log[offset] for log in entries if offset < len(log) and log[offset] & 7}) > 1
        ]
        return PartitionOutcome(
            lost=tuple(sorted(lost)),
            forked=tuple(forked),
            logs=dict(zip(NAMES, logs, strict=True)),
        )


def _brokers(words: list[str]) -> tuple[int, ...]:
    return tuple(_BROKER[word] for word in words)


_BROKER: Final = {name: number for number, name in enumerate(NAMES)}


def _settle(stage: ScriptState, words: list[str]) -> bool:
    return all(stage.send(name, 0) and stage.let((0, 1, 2)) for name in words)


def _send(stage: ScriptState, words: list[str]) -> bool:
    name, _, broker = words
    return stage.send(name, _BROKER[broker])


def _retry(stage: ScriptState, words: list[str]) -> bool:
    return stage.acknowledged(words[0]) or _send(stage, words)


def _expire(stage: ScriptState, words: list[str]) -> bool:
    b, *successor = _brokers([word for word in words if word != "for"])
    return stage.take(Move.EXPIRE, b, successor[0] if successor else b)


def _cut(stage: ScriptState, words: list[str]) -> bool:
    name, _, offset = words
    return stage.cut(_BROKER[name], int(offset))


def _stop(stage: ScriptState, words: list[str]) -> bool:
    """Shut brokers down one by one; after each shutdown all brokers run until they are idle.

    If the broker leads, the controller first moves leadership to the first other eligible replica.
    """
    return all(
        any(stage.take(Move.STOP, b, successor) for successor in sorted(range(3), key=b.__eq__))
        and stage.let((0, 1, 2))
        for b in _brokers(words)
    )


def _for_each(kind: Move) -> Callable[[ScriptState, list[str]], bool]:
    return lambda stage, words: all(stage.take(kind, b) for b in _brokers(words))


_VERBS: Final[Mapping[str, Callable[[ScriptState, list[str]], bool]]] = {
    "settle": _settle,
    "send": _send,
    "retry": _retry,
    "expire": _expire,
    "stop": _stop,
    "cut": _cut,
    "let": lambda stage, words: stage.let(_brokers(words)),
    "follow": lambda stage, words: stage.let(_brokers(words), _FOLLOWING),
    "heal": lambda stage, _: stage.heal(),
    "fetch": _for_each(Move.FETCH),
    "kill": _for_each(Move.KILL),
    "pause": _for_each(Move.PAUSE),
    "resume": _for_each(Move.RESUME),
    "start": _for_each(Move.START),
    "checkpoint": _for_each(Move.CHECKPOINT),
}
