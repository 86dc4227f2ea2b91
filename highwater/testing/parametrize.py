"""Cases of a test with the marker ``kafka``: one for each combination of release and settings."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.catalogue import CATALOGUE, SAMPLE, Release, release

if TYPE_CHECKING:
    from highwater.harness.runs.plan import Acks

_ACKS: Final[Mapping[str, "Acks"]] = {"0": "0", "1": "1", "all": "all", "-1": "all"}
_ELECTIONS: Final = {False: "clean", True: "unclean"}
_DEFAULTS: Final[Mapping[str, object]] = {"acks": "all", "min_isr": 1, "unclean": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoice:
    """The releases, the driver and the store that the command line or ini file chose.

    Attributes:
        only: releases from the command line, to which all tests are limited; None for no limit.
    """

    kafka: tuple[str, ...]
    only: tuple[str, ...] | None
    driver: str
    store: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One release and its settings for which a test runs; the fixture ``highwater_case``.

    Attributes:
        kafka: name of the release in the catalogue.
        min_isr: min.insync.replicas.
        unclean: whether unclean elections are allowed.
        id: the name of the case in the test's id.
        left_out: why this session skips the case; empty if it runs the case.
    """

    kafka: str
    driver: str
    acks: "Acks"
    min_isr: int
    unclean: bool
    id: str
    left_out: str = ""

    @property
    def release(self) -> Release:
        """The catalogue's entry for the case's release."""
        return release(self.kafka)

    @property
    def settings(self) -> dict[str, object]:
        """Return the plan settings that the case determines, by name."""
        decided = {name: getattr(self, name) for name in ("kafka", *_DEFAULTS)}
        return {"cluster": self.driver} | decided


def session_choice(*, kafka: str, only: str | None, driver: str, store: Path) -> SessionChoice:
    """Check the choices of a session, and return them.

    Args:
        kafka: releases from the ini file; empty means the sample.
        only: releases from the command line; None if the command line names none.
        driver: the cluster driver; empty means local processes.
    """
    return SessionChoice(
        kafka=releases(kafka or "sample"),
        only=None if only is None else releases(only),
        driver=_driver(driver or "local"),
        store=store,
    )


def releases(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return the releases in a comma-separated text, which may contain ``all`` or ``sample``."""
    words = text.split(",") if isinstance(text, str) else list(text)
    groups: dict[str, Iterable[str]] = {"all": CATALOGUE, "sample": SAMPLE}
    names: dict[str, None] = {}
    for word in filter(None, map(str.strip, words)):
        names.update(dict.fromkeys(groups.get(word) or (release(word).name,)))
    if not names:
        raise UsageError("no Kafka release is named", hint=nearest("", [*groups, *CATALOGUE]))
    return tuple(names)


def _driver(name: str) -> str:
    drivers = {driver for entry in CATALOGUE.values() for driver in entry.drivers}
    if name not in drivers:
        hint = nearest(name, sorted(drivers))
        raise UsageError(f"there is no cluster driver {name!r}", hint=hint)
    return name


def cases(named: tuple[Any, ...], settings: Mapping[str, Any], choice: SessionChoice) -> list[Case]:
    """Return every case of a test, in the order of the marker's releases and settings.

    If the marker names no release, the releases come from the command line, or else from the ini
    file. If the marker names releases that the command line does not name, their cases are skipped.

    Args:
        settings: ``acks``, ``min_isr`` and ``unclean``; each is one value or several values.
    """
    kafkas = releases(named) if named else (choice.only or choice.kafka)
    values = {name: _values(name, settings.get(name, [])) for name in {**_DEFAULTS, **settings}}
    axes = {name: options for name, options in values.items() if options}
    combined = [
        dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())
    ]
    return [_case(kafka, chosen, choice) for kafka in kafkas for chosen in combined]


def _case(kafka: str, settings: Mapping[str, Any], choice: SessionChoice) -> Case:
    words = [
        _ELECTIONS[value] if name == "unclean" else f"{name}={value}"
        for name, value in settings.items()
    ]
    return Case(
        kafka=kafka,
        driver=choice.driver,
        id="-".join([kafka, *words]),
        left_out=_left_out(kafka, choice),
        **{**_DEFAULTS, **settings},
    )


def _left_out(kafka: str, choice: SessionChoice) -> str:
    if choice.only is not None and kafka not in choice.only:
        return f"--highwater-kafka={','.join(choice.only)} leaves Kafka {kafka} out"
    drivers = release(kafka).drivers
    if choice.driver not in drivers:
        return f"Kafka {kafka} runs on {' and '.join(drivers)} only, not on {choice.driver}"
    return ""


def _values(name: str, given: object) -> list[object]:
    many = list(given) if isinstance(given, list | tuple | set) else [given]
    if name == "acks" and all(str(value) in _ACKS for value in many):
        return [_ACKS[str(value)] for value in many]
    if name == "min_isr" and all(type(value) is int for value in many):
        return many
    if name == "unclean" and all(isinstance(value, bool) for value in many):
        return many
    if name in _DEFAULTS:
        raise UsageError(f"the marker kafka has a wrong value: {name}={given!r}", hint=_HINTS[name])
    raise UsageError(f"the marker kafka has no argument {name!r}", hint=nearest(name, _DEFAULTS))


_HINTS: Final = {
    "acks": "acks is 0, 1 or all, or a list of these.",
    "min_isr": "min_isr is a number of replicas, or a list of these.",
    "unclean": "unclean is True or False, or a list of these.",
}
