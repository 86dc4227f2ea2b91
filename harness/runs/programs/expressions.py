"""Expressions that find a name in a record, both in inputs and in outputs.

``key`` finds the record's key, ``header:NAME`` a header. ``$.order_id`` is a JSONPath (RFC 9535)
for a value in JSON. ``module:function`` calls a Python function. Any other text is a regular
expression, which is searched in the value's text. If it has groups, the first group is the name.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonpath
import msgspec

from highwater.harness.base.errors import UsageError

_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
_HEADER: Final = "header:"
_HINT: Final = (
    "Write key, header:NAME, a JSONPath such as $.order_id, a Python function module:function, or"
    " a regular expression such as 'id=(p[0-9]+-[0-9]+)'."
)


class ProgramRecord(NamedTuple):
    """An input or an output, in the form that a user's function gets."""

    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, bytes | None] = {}


Expression = Callable[[ProgramRecord], tuple[str, ...]]
"""A function that returns the distinct names in a record. Empty if the record has no name."""


def expression(text: str) -> Expression:
    """Return the function that finds names, for a user's text.

    Raises:
        UsageError: the text is not an expression. The returned function also raises this error, if
            the user's Python function fails.
    """
    if text == "key":
        return lambda record: _names([record.key])
    if text.startswith(_HEADER):
        name = text.removeprefix(_HEADER)
        return lambda record: _names([record.headers.get(name)])
    if text.startswith("$"):
        return _of_path(text)
    if match := _FUNCTION.fullmatch(text):
        return _of_function(text, match[1], match[2])
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}", hint=_HINT) from error
    return lambda record: _names(
        hit[1] if pattern.groups else hit[0] for hit in [pattern.search(_text(record.value))] if hit
    )


def _of_path(text: str) -> Expression:
    try:
        path = jsonpath.compile(text)
    except jsonpath.JSONPathError as error:
        why = str(error).splitlines()[0]
        raise UsageError(f"{text!r} is not a JSONPath: {why}", hint=_HINT) from error

    def find(record: ProgramRecord) -> tuple[str, ...]:
        try:
            value = msgspec.json.decode(record.value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ()
        return _names(path.findall(value))

    return find


def _of_function(text: str, module: str, name: str) -> Expression:
    here = str(Path.cwd())
    try:
        sys.path.insert(0, here)
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise UsageError(f"the function {text} cannot be imported: {error}", hint=_HINT) from error
    finally:
        sys.path.remove(here)

    def find(record: ProgramRecord) -> tuple[str, ...]:
        try:
            names = function(record)
            return _names([names] if isinstance(names, str | bytes) else names or ())
        except Exception as error:
            raise UsageError(
                f"{text} failed for the record {_text(record.value)[:80]!r}: {error!r}",
                hint="The function gets a record (value, key, headers), and returns a name, a list"
                " of names or None.",
            ) from error

    return find


def _names(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the distinct values as names, without null, false and empty values."""
    texts = (_text(value) for value in values if value is not None and value is not False)
    return tuple(dict.fromkeys(text for text in texts if text))


def _text(value: Any) -> str:  # noqa: ANN401 - of JSON
    match value:
        case None:
            return ""
        case bytes():
            return value.decode("utf-8", "replace")
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()
