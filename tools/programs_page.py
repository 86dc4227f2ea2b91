"""The page docs/programs.md: frameworks whose releases lose records, from docs/program-pairs/."""

from datetime import date
from pathlib import Path
from typing import Final

import msgspec

PAIRS: Final = Path(__file__).parent.parent / "docs" / "program-pairs"

_NOTE: Final = "<!-- Written by `make docs` from docs/program-pairs/*.toml. -->\n"
_INTRO: Final = """\
These libraries lost records by their own bugs. [`highwater app`](apps.md) ran the
same [program](examples/frameworks/README.md), faults and seeds with a release that has the bug and
with one that has not, on Kafka 4.4.0. *(D)* marks bugs that the default faults also find within 60
s.
"""
_NOT_SHOWN: Final = """\
## Not reproduced
"""


class PlayedRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release of a framework, and the results of its runs.

    Attributes:
        affected: whether the release has the bug, as the bug's report says.
        runs: number of judged runs.
        shown: number of runs that found the bug.
    """

    version: str
    affected: bool
    runs: int
    shown: int


class ProgramPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bug of a framework, and the releases between which the bug was introduced or fixed.

    Attributes:
        mechanism: the way in which the framework loses a record.
        fault: the faults that reveal the bug, and their duration.
        program: the program's file in docs/examples/frameworks.
        found: the outcome of inputs that broke the guarantee.
        named: the mistake that Highwater's reports name.
        tried: the reason if no run could show the bug; then no releases are listed.
        by_default: whether runs of 60 s with the default faults of ``highwater app`` found the bug.
    """

    framework: str
    bug: str
    mechanism: str
    date: date
    fault: str = ""
    command: str = ""
    program: str = ""
    found: str = ""
    named: str = ""
    tried: str = ""
    by_default: bool = False
    release: tuple[PlayedRelease, ...] = ()


def pairs() -> list[ProgramPair]:
    """Return the bugs in the order of their files' names."""
    return [
        msgspec.toml.decode(path.read_bytes(), type=ProgramPair)
        for path in sorted(PAIRS.glob("*.toml"))
    ]


def programs() -> str:
    """Return the text of docs/programs.md."""
    every = pairs()
    parts = ["# Programs and frameworks\n", _NOTE, _INTRO]
    parts += [_played(pair) for pair in every if pair.release]
    tried = [f"- **{pair.framework}**, {pair.bug}: {pair.tried}" for pair in every if pair.tried]
    if tried:
        parts += [_NOT_SHOWN, *tried]
    return "\n".join(parts).rstrip() + "\n"


def _played(pair: ProgramPair) -> str:
    bad, good = (_runs(pair, affected=affected) for affected in (True, False))
    program = "" if pair.program in pair.command else f" ({pair.program})"
    default = " *(D)*" if pair.by_default else ""
    return (
        f"## {pair.framework}: {pair.bug}\n\n{pair.mechanism}\n\n"
        f"- **Faults**: {pair.fault}{default}\n"
        f"- **Runs with {pair.found} records**: {bad}; without the bug: {good}\n"
        f"- **Mistake in the report**: {pair.named}\n"
        f"- **Command**: `{pair.command}`{program}\n"
    )


def _runs(pair: ProgramPair, *, affected: bool) -> str:
    return ", ".join(
        f"{played.shown}/{played.runs} with {played.version}"
        for played in pair.release
        if played.affected == affected
    )
