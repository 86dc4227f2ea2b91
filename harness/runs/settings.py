"""Settings, declared at the fields of structs: each its option, its limits and its help.

``rate: Annotated[float, Setting("Records per second in all, or max.", words=RATE)] = 200.0`` is a
field of a plan, the option ``--rate`` of commands, and the argument ``rate`` of ``kafka_run``.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, reduce
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import NODEFAULT

from highwater.harness.base.limits import Limit, out_of_range
from highwater.harness.base.wording import exact
from highwater.harness.runs import parse_values

_S = TypeVar("_S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Words:
    """How values are typed that are neither numbers nor switches nor plain words.

    Attributes:
        read: the value of what was typed; raises ``UsageError``.
        write: what to type for a value.
    """

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


ACKS: Final = Words(parse_values.acks)
BUDGET: Final = Words(
    parse_values.budget,
    lambda budget: ",".join(f"{name}={most}" for name, most in budget.items()) or "none",
)
CHURN: Final = Words(
    parse_values.churn, lambda seconds: f"{exact(seconds)}s" if seconds else "none"
)
DURATION: Final = Words(parse_values.duration, lambda seconds: f"{exact(seconds)}s")
GROUP_PROTOCOL: Final = Words(parse_values.group_protocol)
ISOLATION: Final = Words(parse_values.isolation, ",".join)
NAMES: Final = Words(parse_values.names, lambda names: ",".join(names) or "none")
NEMESIS: Final = Words(parse_values.nemesis, NAMES.write)
RATE: Final = Words(parse_values.rate, lambda rate: exact(rate) if rate else "max")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a run.

    Attributes:
        help: its line in ``--help``; ``{}`` stands for the limit.
        limit: the least and the most that any run may have.
        unit: what is counted, after a number that is refused.
        name: of its argument; empty: the field's.
        option: what to type; empty: the name with hyphens.
        words: how its values are typed.
        default: in ``--help``; None: that of the field. Empty: none is shown.
        path: fields that lead to its value; the last one declares it.
        kind: type of what is typed.
    """

    help: str
    limit: Limit | None = None
    unit: str = ""
    _: KW_ONLY
    name: str = ""
    option: str = ""
    words: Words | None = None
    default: str | None = None
    path: tuple[str, ...] = ()
    kind: type = str

    def typed(self, name: str) -> tuple[str, ...]:
        """Return what can be typed for it, under a name."""
        return tuple(self.option.split()) or (f"--{name.replace('_', '-')}",)

    def of(self, whole: msgspec.Struct) -> Any:  # noqa: ANN401 - of any type
        """Return its value."""
        return reduce(getattr, self.path, whole)

    def value(self, given: Any) -> Any:  # noqa: ANN401 - of any type
        """Return the value of what was typed, or of what a program gives.

        Raises:
            UsageError: that is no value of this setting.
        """
        if self.words is None:
            return given
        many = isinstance(given, list | tuple)
        return self.words.read(",".join(map(str, given)) if many else str(given))

    def word(self, value: Any) -> str:  # noqa: ANN401 - of any type
        """Return what to type for a value."""
        if self.words is not None:
            return self.words.write(value)
        return exact(value) if isinstance(value, int | float) else str(value)

    def check(self, whole: msgspec.Struct) -> None:
        """Refuse a value out of the limits.

        Raises:
            UsageError: says what is possible.
        """
        value = self.of(whole)
        if self.limit is not None and not self.limit.least <= value <= self.limit.most:
            raise out_of_range(value, *self.limit, self.unit)


@cache
def settings_of(owner: type[msgspec.Struct]) -> Mapping[str, Setting]:
    """Return the settings that a struct and the structs in it declare, by their names."""
    settings: dict[str, Setting] = {}
    hints = get_type_hints(owner, include_extras=True)
    for field in msgspec.structs.fields(owner):
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            for name, inner in settings_of(hint).items():
                settings[name] = dataclasses.replace(inner, path=(field.name, *inner.path))
        for declared in getattr(hint, "__metadata__", ()):
            name = declared.name or field.name
            settings[name] = _complete(declared, field, hint.__origin__)
    return settings


def _complete(declared: Setting, field: msgspec.structs.FieldInfo, hint: object) -> Setting:
    kind = hint if declared.words is None and hint in {bool, int, float} else str
    default = declared.default
    if default is None:
        made = field.default_factory is not NODEFAULT
        value = field.default_factory() if made else field.default
        shown = kind is not bool and value is not NODEFAULT and value is not None
        default = declared.word(value) if shown else ""
    limit = declared.limit
    limits = limit and (limit.lasting if declared.words is DURATION else limit.says)
    return dataclasses.replace(
        declared,
        help=declared.help.format(limits),
        default=default,
        path=(field.name,),
        kind=kind,
    )


def with_values(whole: _S, given: Mapping[str, object]) -> _S:
    """Return a struct with the values that are given, by the names of its settings.

    Raises:
        UsageError: one is no value of its setting.
    """
    parts: dict[str, dict[str, object]] = defaultdict(dict)
    for name, value in given.items():
        setting = settings_of(type(whole))[name]
        *above, field = setting.path
        parts[".".join(above)][field] = setting.value(value)
    fields = parts.pop("", {})
    for name, inner in parts.items():
        fields[name] = msgspec.structs.replace(getattr(whole, name), **inner)
    return msgspec.structs.replace(whole, **fields)


def options(whole: msgspec.Struct, *names: str) -> list[str]:
    """Return settings as options, ``--rate max``; of switches those that are on."""
    words = []
    for name in names:
        setting = settings_of(type(whole))[name]
        value, option = setting.of(whole), setting.typed(name)[0].partition("/")[0]
        if setting.kind is not bool:
            words.append(f"{option} {setting.word(value)}")
        elif value:
            words.append(option)
    return words
