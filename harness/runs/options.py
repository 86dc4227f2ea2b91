"""Options, declared at the fields of structs, with their names, limits and help texts.

For example, ``keys: Annotated[int, Option("Keys of records, {}.", limits.KEYS)] = 0`` declares a
field of a plan, the option ``--keys`` of commands, and the argument ``keys`` of ``kafka_run``.
"""

import dataclasses
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, reduce
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import NODEFAULT

from highwater.harness.base.limits import Limit
from highwater.harness.base.wording import exact
from highwater.harness.runs import parse_values

_S = TypeVar("_S", bound=msgspec.Struct)
_KINDS: Final[Mapping[object, Any]] = {
    bool: bool, int: int, float: float, tuple[str, ...]: list[str]
}  # fmt: skip
"""Type of a field to the type of its value on the command line. All other values are texts."""


@dataclass(frozen=True, slots=True)
class Notation:
    """A notation for values that are not numbers, switches or plain words.

    Attributes:
        read: command-line text to value; raises ``UsageError``.
        write: value to command-line text.
    """

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class Option:
    """An option of commands, and the field that it sets.

    Attributes:
        help: the line in ``--help``; ``{}`` is the limit, ``{.lasting}`` a limit of durations.
        limit: the least and the greatest value that any run may have.
        unit: the noun in the error ``0 brokers: out of range``; empty to use the help's first
            words.
        name: the argument's name in Python; empty if it is the field's name.
        typed: the option on the command line; empty if it is the name with hyphens.
        default: the default in ``--help``; None for the field's default, empty for no default.
        path: names of the fields from the outer struct to the value.
        kind: the type of the value on the command line.
    """

    help: str
    limit: Limit | None = None
    unit: str = ""
    _: KW_ONLY
    name: str = ""
    typed: str = ""
    notation: Notation | None = None
    default: str | None = None
    path: tuple[str, ...] = ()
    kind: type = str

    def names(self, name: str) -> tuple[str, ...]:
        """Return the command-line names of this option. Argument ``min_isr`` -> ``--min-isr``."""
        return tuple(self.typed.split()) or (f"--{name.replace('_', '-')}",)

    def of(self, whole: msgspec.Struct) -> Any:  # noqa: ANN401 - of any type
        """Return this option's value in a struct such as a plan."""
        return reduce(getattr, self.path, whole)

    def value(self, given: Any) -> Any:  # noqa: ANN401 - of any type
        """Convert a command-line text, or a value from Python, to the option's value.

        Raises:
            UsageError: the text is not a value of this option.
        """
        if self.notation is None:
            return tuple(given) if isinstance(given, list) else given
        if isinstance(given, float):
            given = exact(given)
        many = isinstance(given, list | tuple)
        return self.notation.read(",".join(map(str, given)) if many else str(given))

    def word(self, value: Any) -> str:  # noqa: ANN401 - of any type
        """Convert the option's value to a command-line text."""
        if self.notation is not None:
            return self.notation.write(value)
        return exact(value) if isinstance(value, int | float) else str(value)


@cache
def options_of(owner: type[msgspec.Struct]) -> Mapping[str, Option]:
    """Return name -> option, for all options that a struct and its inner structs declare."""
    options: dict[str, Option] = {}
    hints = get_type_hints(owner, include_extras=True)
    for field in msgspec.structs.fields(owner):
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            for name, inner in options_of(hint).items():
                options[name] = dataclasses.replace(inner, path=(field.name, *inner.path))
        for declared in getattr(hint, "__metadata__", ()):
            name = declared.name or field.name
            options[name] = _complete(declared, field, hint.__origin__)
    return options


def _complete(declared: Option, field: msgspec.structs.FieldInfo, hint: object) -> Option:
    kind = _KINDS.get(hint, str) if declared.notation is None else str
    default = declared.default
    if default is None:
        made = field.default_factory is not NODEFAULT
        value = field.default_factory() if made else field.default
        default = "" if kind is bool or value in (NODEFAULT, None) else declared.word(value)
    unit = declared.unit or re.split(r"[,:(]", declared.help)[0].strip().lower()
    text = declared.help.format(declared.limit)
    path = (field.name,)
    return dataclasses.replace(
        declared, help=text, unit=unit, default=default, path=path, kind=kind
    )


def several(option: Option) -> Option:
    """Return an option for comma-separated values, each of which is a value of ``option``."""

    def read(text: str) -> tuple[Any, ...]:
        if option.kind is bool:
            return parse_values.switches(text)
        if option.kind is int:
            return parse_values.numbers(text, option.unit)
        return tuple(map(option.value, parse_values.names(text)))

    typed = option.typed.partition("/")[0]
    return dataclasses.replace(option, typed=typed, notation=Notation(read), kind=str)


def with_options(whole: _S, given: Mapping[str, object]) -> _S:
    """Return a copy of a struct with the given values; ``given`` maps option names to values.

    Raises:
        UsageError: a value is not valid for its option.
    """
    parts: dict[str, dict[str, object]] = defaultdict(dict)
    for name, value in given.items():
        option = options_of(type(whole))[name]
        *above, field = option.path
        parts[".".join(above)][field] = option.value(value)
    fields = parts.pop("", {})
    for name, inner in parts.items():
        fields[name] = msgspec.structs.replace(getattr(whole, name), **inner)
    return msgspec.structs.replace(whole, **fields)


def as_typed(whole: msgspec.Struct, *names: str) -> list[str]:
    """Return options as on a command line, such as ``--rate max``. Omit switches that are off."""
    words = []
    for name in names:
        option = options_of(type(whole))[name]
        value, typed = option.of(whole), option.names(name)[0].partition("/")[0]
        if option.kind is bool:
            words += [typed] if value else []
        else:
            values = value if option.kind == list[str] else [value]
            words += [f"{typed} {shlex.quote(option.word(value))}" for value in values]
    return words
