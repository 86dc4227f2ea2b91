"""Single messages as text: ``EndTxn client:producer-0>broker-1 n=2 transactional-id=events-tx``.

The text names a request (with ``.answer``: its response), the sender and the receiver, and
properties. Stories (scripted scenarios), schedules and the command line use this notation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from highwater.clusters.core.addresses import controller_ids
from highwater.clusters.relay import apis
from highwater.clusters.relay.apis import APIS, PROPERTIES
from highwater.clusters.relay.messages import Action, MessageRule, Side
from highwater.clusters.relay.refusals import ERRORS, refusable
from highwater.clusters.relay.rules import ANY, ANY_BROKER, ANY_CLIENT, CLIENT, COORDINATION, Node
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release
from highwater.harness.runs.parse_values import lasting
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import FaultStep

ACTIONS: Final[Mapping[str, Action]] = {
    "hold": "hold",
    "drop": "drop",
    "repeat": "repeat",
    "delay": "delay",
    "refuse": "refuse",
}
VERBS: Final[Mapping[Action, str]] = {
    "hold": "held",
    "drop": "dropped",
    "repeat": "repeated",
    "delay": "delayed",
    "refuse": "refused",
}
"""For each action on a message, its participle: ``held`` for ``hold``."""

TOPIC: Final = "{topic}"
"""The placeholder for the name of the topic under test, in a message's properties."""

_ANY_API: Final = "any"
_ANSWER: Final = "answer"
_BROKER: Final = "broker-"
_CONTROLLER: Final = "controller"
_EXAMPLE: Final = "EndTxn client:producer-0>broker-1 n=1 transactional-id={topic}-producer-0"
_OTHERS: Final = ("n", "times", "by", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpec:
    """A description of the messages to which a rule of the relay applies.

    Attributes:
        api: name of the Kafka request, or ``any``.
        source: the sender: ``client:producer-0``, ``broker-1``, ``client:*``, ``*``.
        target: the receiver, in the same form.
        first: the number of the first message that the rule affects, counted from 1.
        times: the number of affected messages; 0 for all.
        by_s: the delay in seconds, for a delayed message.
        error: name of the error, for a refused message.
        properties: values by property name; the names are in ``apis.PROPERTIES``.
    """

    api: str
    side: Side = "request"
    source: str = ANY
    target: str = ANY
    first: int = 1
    times: int = 1
    by_s: float = 0.0
    error: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the text that describes a message.

        Raises:
            UsageError: the text describes no message; the error names the wrong word.
        """
        kind, *words = text.split() or [""]
        api, _, side = kind.partition(".")
        if api not in {*APIS, _ANY_API} or side not in {"", "request", _ANSWER}:
            raise UsageError(
                f"no message is called {kind!r}",
                hint=nearest(api, [*APIS, _ANY_API])
                if api not in APIS
                else f"Write {api}, or {api}.{_ANSWER} for the response to it.",
            )
        values: dict[str, Any] = {"properties": {}}
        for word in words:
            if ">" in word:
                values["source"], _, values["target"] = word.partition(">")
            else:
                _read_word(word, values)
        return cls(api=api, side="answer" if side == _ANSWER else "request", **values)

    @property
    def of_clients(self) -> bool:
        """True if the sender or the receiver is a client."""
        return any(end.startswith(CLIENT) for end in (self.source, self.target))

    def require(self, action: Action, plan: Plan, kafka: Release) -> None:
        """Raise an error if the run's release, brokers or clients never send such a message.

        Raises:
            UsageError: the message states the reason.
        """
        for end in (self.source, self.target):
            _require_node(end, plan, kafka)
        if self.of_clients and not plan.wire_clients:
            raise UsageError(
                "clients do not connect through the relay in this run", hint="Add --wire-clients."
            )
        if action == "repeat" and self.side == "answer":
            raise UsageError(
                "a response cannot be repeated, because its receiver would have no request for it",
                hint="Repeat the request.",
            )
        if (action == "delay") != bool(self.by_s):
            raise UsageError(
                "only delay needs a time, and delay always needs a time",
                hint="Write by=2s.",
            )
        self._require_error(action)
        if self.api != _ANY_API:
            self._require_api(kafka)
        self._numbers()

    def _require_error(self, action: Action) -> None:
        """Raise an error if brokers never return the named error for the request."""
        if action != "refuse" and self.error:
            raise UsageError("only refuse uses an error", hint="Leave it out.")
        if action != "refuse":
            return
        acted = self.side == "answer"
        api = APIS[self.api].key if self.api in APIS else apis.ANY_API
        legal = [name for name in ERRORS if refusable(api, name, acted=acted)]
        if self.error not in legal:
            when = "after it has acted" if acted else "before it acts"
            raise UsageError(
                f"no broker returns {self.error or 'no error'} for {self.api} {when}",
                hint=f"Write error= with one of: {', '.join(legal)}."
                if legal
                else "Name a request that clients send: docs/wire.md has a table.",
            )

    def _require_api(self, kafka: Release) -> None:
        api = APIS[self.api]
        gone = api.until is not None and kafka.number >= api.until
        if kafka.number < api.since or gone or api.keeper not in {"", kafka.coordination}:
            since = f"it came with Kafka {_dotted(api.since)}"
            why = f"brokers send it only with {api.keeper}" if api.keeper else since
            raise UsageError(
                f"Kafka {kafka.name} has no {self.api}: {why}", hint="docs/wire.md has a table."
            )
        for name in self.properties:
            if name == apis.CORRELATION:
                continue
            if name not in api.properties:
                had = [*api.properties, apis.CORRELATION]
                raise UsageError(f"{self.api} has no {name}", hint=f"It has {', '.join(had)}.")
            if kafka.number < api.properties[name]:
                raise UsageError(
                    f"{self.api} of Kafka {kafka.name} has no {name}: it came with"
                    f" {_dotted(api.properties[name])}",
                    hint="Leave the property out, or use a later release.",
                )

    def _numbers(self) -> dict[str, int]:
        numbers = {}
        for name in (apis.PARTITION, apis.EPOCH, apis.CORRELATION):
            if name in self.properties:
                numbers[name] = _number(self.properties[name], name, least=0)
        return numbers

    def rule(self, action: Action, topic: str) -> MessageRule:
        """Return the relay's rule for this message.

        Args:
            topic: name of the topic under test. It replaces ``{topic}``; it is also the topic of a
                message that has only a partition.
        """
        values = {name: text.replace(TOPIC, topic) for name, text in self.properties.items()}
        numbers = self._numbers()
        named = values.get(apis.TOPIC, topic if apis.PARTITION in numbers else "")
        return MessageRule(
            action=action,
            api=apis.ANY_API if self.api == _ANY_API else APIS[self.api].key,
            side=self.side,
            source=_node(self.source),
            target=_node(self.target),
            first=self.first,
            times=self.times,
            delay_s=self.by_s,
            transactional_id=values.get(apis.TRANSACTIONAL_ID),
            topics=frozenset(filter(None, [named])),
            partition=numbers.get(apis.PARTITION, -1),
            epoch=numbers.get(apis.EPOCH),
            correlation=numbers.get(apis.CORRELATION),
            error=ERRORS.get(self.error, 0),
        )


def read_action(word: str) -> Action:
    """Return the action that a word names, such as ``hold``.

    Raises:
        UsageError: the word is no action.
    """
    if word not in ACTIONS:
        raise UsageError(
            f"{word!r} is no action on a message; actions are hold, drop, repeat, delay and refuse",
            hint=f"Write hold {_EXAMPLE}.",
        )
    return ACTIONS[word]


def read_option(text: str, *, until_s: float) -> FaultStep:
    """Return the step of an option such as ``hold EndTxn client:*>broker-1 at=2s for=10s``.

    Args:
        until_s: the step's end in seconds, if the option has no ``for``.

    Raises:
        UsageError: the option describes no step.
    """
    word, _, rest = text.strip().partition(" ")
    action = read_action(word)
    times = {"at": 0.0}
    message = []
    for word in rest.split():
        name, _, value = word.partition("=")
        if name in {"at", "for"} and ">" not in word:
            times[name] = lasting(value) if name == "for" else _seconds(value)
        else:
            message.append(word)
    step = FaultStep(
        fault=f"{action}-message",
        at_s=times["at"],
        lasts_s=times.get("for", max(0.0, until_s - times["at"])),
        message=" ".join(message),
    )
    MessageSpec.of(step.message)
    return step


def _seconds(text: str) -> float:
    return 0.0 if text in {"0", "0s"} else lasting(text)


def _read_word(word: str, values: dict[str, Any]) -> None:
    name, given, value = word.partition("=")
    readers: dict[str, tuple[str, Callable[[str], object]]] = {
        "n": ("first", lambda text: _number(text, "n", least=1)),
        "times": ("times", lambda text: _number(text, "times", least=0)),
        "by": ("by_s", lasting),
        "error": ("error", str),
    }
    if name in readers and value:
        field_name, read = readers[name]
        values[field_name] = read(value)
    elif name in PROPERTIES and value:
        values["properties"][name] = value
    elif given:
        raise UsageError(
            f"no message has a property {name!r}", hint=nearest(name, [*PROPERTIES, *_OTHERS])
        )
    else:
        raise UsageError(f"{word!r} does not describe a message", hint=f"Write {_EXAMPLE}.")


def _number(text: str, name: str, *, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{name} cannot be {text!r}", hint=f"Use a whole number, {least} or more.")
    return int(text)


def _require_node(name: str, plan: Plan, kafka: Release) -> None:
    ids = plan.broker_ids
    names = {ANY, ANY_BROKER, ANY_CLIENT, *(f"{_BROKER}{broker}" for broker in ids)}
    if kafka.coordination == "kraft":
        names.add(_CONTROLLER)
        if plan.controllers > 1:
            names.update(f"{_CONTROLLER}-{id_}" for id_ in controller_ids(plan.controllers))
    if name not in names and not (name.startswith(CLIENT) and len(name) > len(CLIENT)):
        raise UsageError(
            f"no message is sent or received by {name!r}",
            hint=f"Ends are {', '.join(sorted(names))} and client:NAME, such as client:producer-0.",
        )


def _node(name: str) -> Node:
    if name == _CONTROLLER:
        return COORDINATION
    of_controller = name.removeprefix(f"{_CONTROLLER}-")
    if of_controller != name and of_controller.isdecimal():
        return int(of_controller)
    number = name.removeprefix(_BROKER)
    return int(number) if name.startswith(_BROKER) and number.isdecimal() else name


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))
