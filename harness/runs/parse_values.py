"""Parsers for texts from the command line: durations, rates, lists."""

import re
import warnings
from collections.abc import Iterable
from typing import Final, Literal, get_args

from highwater.harness.base.errors import RenamedWarning, UsageError
from highwater.harness.releases.group_protocols import CLASSIC, CONSUMER, GroupProtocol
from highwater.harness.runs.steps import current_fault

Acks = Literal["0", "1", "all"]
Isolation = Literal["read_committed", "read_uncommitted"]
Guarantee = Literal["at-least-once", "exactly-once", "at-most-once"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_ACKS: Final[dict[str, Acks]] = {"0": "0", "1": "1", "all": "all", "-1": "all"}
_ISOLATION: Final[dict[str, Isolation]] = {name: name for name in get_args(Isolation)}
_PROTOCOLS: Final[dict[str, GroupProtocol]] = {CLASSIC: "classic", CONSUMER: "consumer"}
_GUARANTEES: Final[dict[str, Guarantee]] = {name: name for name in get_args(Guarantee)}
_MEMBERS: Final = 3


def duration(text: str) -> float:
    """Return the seconds of ``60s``, ``500ms``, ``2m``, ``1h`` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a duration", hint="Write 60s, 500ms, 2m or 1h.")
    return float(match[1]) * _UNITS[match[2]]


def lasting(text: str) -> float:
    """Return the seconds of a duration such as ``60s``. Zero is an error."""
    if not (seconds := duration(text)):
        raise UsageError(
            f"the duration {text!r} is zero", hint="Write a longer duration: 60s, 500ms, 2m or 1h."
        )
    return seconds


def rate(text: str) -> float:
    """Return a rate in records per second. ``max`` means no limit, and returns 0."""
    if text == "max":
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise UsageError(
            f"{text!r} is not a rate", hint="Write records per second, such as 500, or max."
        )
    return value


def names(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list; empty for ``none`` or no text."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    return () if parts == ("none",) else parts


def nemesis(text: str) -> tuple[str, ...]:
    """Return the faults in a comma-separated list. ``none`` means a run without faults."""
    faults = names(text)
    if not faults and text.strip() != "none":
        raise UsageError(
            f"{text!r} names no fault", hint="Write faults, such as kill,pause, or write none."
        )
    return tuple(map(_renamed, faults))


def budget(text: str) -> dict[str, int]:
    """Return ``kill=5,brokers=1`` as a dict of name to number; empty for ``none`` or no text."""
    limits = {}
    for part in names(text):
        name, _, most = part.partition("=")
        if not most.isdecimal():
            raise UsageError(
                f"{part!r} is not a limit", hint="Write NAME=NUMBER, such as kill=5,brokers=1."
            )
        limits[_renamed(name)] = int(most)
    return limits


def _renamed(word: str) -> str:
    if (current := current_fault(word)) != word:
        warnings.warn(f"the fault {word} now has the name {current}", RenamedWarning, stacklevel=3)
    return current


def acks(text: str) -> Acks:
    """Return the acks that producers wait for: 0, 1 or all (-1 means all)."""
    if text not in _ACKS:
        raise UsageError(f"acks cannot be {text!r}", hint="Write 0, 1 or all.")
    return _ACKS[text]


def isolation(text: str) -> tuple[Isolation, ...]:
    """Return the readers' isolation levels, separated by commas. Readers use them in turn."""
    words = names(text)
    if not words or not {*words} <= {*_ISOLATION}:
        raise UsageError(
            f"isolation cannot be {text!r}",
            hint="Write read_committed, read_uncommitted, or both, with a comma between them.",
        )
    return tuple(_ISOLATION[word] for word in words)


def group(members: int, protocol: str | None) -> dict[str, object]:
    """Return the plan's fields for a group: ``subscribe`` (its members) and ``group_protocol``.

    With a protocol but no number, a group has three members.
    """
    if protocol is None:
        return {"subscribe": members, "group_protocol": CLASSIC}
    return {"subscribe": members or _MEMBERS, "group_protocol": group_protocol(protocol)}


def group_protocol(text: str) -> GroupProtocol:
    """Return the protocol of a group."""
    if text not in _PROTOCOLS:
        raise UsageError(
            f"a group's protocol cannot be {text!r}",
            hint="Write classic, or consumer (KIP-848).",
        )
    return _PROTOCOLS[text]


def guarantee(text: str) -> Guarantee:
    """Return the guarantee: how often a program promises to process each input."""
    if text not in _GUARANTEES:
        raise UsageError(
            f"there is no guarantee {text!r}", hint=f"Choose from {', '.join(_GUARANTEES)}."
        )
    return _GUARANTEES[text]


def churn(text: str) -> float:
    """Return a client's average lifetime in seconds; 0 for ``none``: as long as the run."""
    return 0.0 if text == "none" else duration(text)


def numbers(text: str, what: str) -> tuple[int, ...]:
    """Return the whole numbers in a comma-separated list."""
    try:
        brokers = tuple(int(name) for name in names(text))
    except ValueError:
        brokers = ()
    if not brokers:
        raise UsageError(
            f"{text!r} is not a list of {what}", hint="Write whole numbers, such as 1,2."
        )
    return brokers


def switches(text: str) -> tuple[bool, ...]:
    """Return the values in ``true``, ``false`` or ``true,false``."""
    words = names(text)
    if not words or not {*words} <= {"false", "true"}:
        raise UsageError(f"{text!r} is not true or false", hint="Write false, true or false,true.")
    return tuple(word == "true" for word in words)


def size(text: str) -> int:
    """Return the bytes of ``8G``, ``512M`` or ``1.5G``; the units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size", hint="Write 512M or 8G.")
    return int(float(match[1]) * 1024 ** (1 + "KMGT".index(match[2].upper())))


def master(text: str | None) -> str | None:
    """Return a Spark master's URL; None means this machine."""
    if text is None or re.fullmatch(r"local(\[[\d*,]+\])?|yarn|(spark|k8s)://[^\s/]+.*", text):
        return text
    raise UsageError(
        f"{text!r} is not a Spark master",
        hint="Write local[4], spark://HOST:PORT, k8s://HOST:PORT or yarn.",
    )


def remote(text: str | None) -> str | None:
    """Return a Spark Connect server's URL; None means no server."""
    if text is None or re.fullmatch(r"sc://[^\s/:;]+(:\d+)?(/|/;[^\s]*)?", text):
        return text
    raise UsageError(f"{text!r} is not a Spark Connect server", hint="Write sc://HOST:PORT.")


def conf(texts: Iterable[str]) -> dict[str, str]:
    """Return Spark's settings from ``KEY=VALUE`` texts. The last value of a key wins."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", key):
            raise UsageError(
                f"{text!r} is not KEY=VALUE", hint="Write, for example, spark.executor.memory=2g."
            )
        settings[key] = value
    return settings


def memory(text: str) -> str:
    """Return a size of memory in the JVM's notation, such as ``2g``, after a check."""
    if re.fullmatch(r"[1-9]\d*[kmgt]b?", text.lower()):
        return text
    raise UsageError(f"{text!r} is not a memory size", hint="Write 512m, 2g or 16g.")
