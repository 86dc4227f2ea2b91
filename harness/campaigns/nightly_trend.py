"""``trend.jsonl``: a line for each cell and night.

Broken lines are skipped. Only the last ``NIGHTS`` nights are kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.base.errors import StoreError
from highwater.harness.base.files import write_whole
from highwater.harness.campaigns.nightly_cells import SCHEMA, CellResult

NIGHTS: Final = 90
"""Number of nights in ``trend.jsonl``."""


class _SchemaOnly(msgspec.Struct):
    schema: int = 0


def read(path: Path) -> tuple[list[CellResult], list[str]]:
    """Return the results of earlier nights, oldest first, and notes about ignored lines.

    No verdict depends on these results. So a missing file, an incomplete last line and lines with
    another schema are not errors.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return [], [f"{path} does not exist: this is the first night of its history."]
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    marks: list[CellResult] = []
    schemas: Counter[int] = Counter()
    broken: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            schema = msgspec.json.decode(line, type=_SchemaOnly).schema
            if schema == SCHEMA:
                marks.append(msgspec.json.decode(line, type=CellResult))
            else:
                schemas[schema] += 1
        except (msgspec.MsgspecError, UnicodeDecodeError):
            broken.append(number)
    notes = [
        f"{path}: {count} of {len(lines)} lines are ignored: schema {schema}, not {SCHEMA}."
        for schema, count in sorted(schemas.items())
    ]
    if broken == [len(lines)]:
        notes.append(f"{path}: the last line is incomplete and is ignored.")
    elif broken:
        notes.append(
            f"{path}: {len(broken)} lines are broken and are ignored; the first is {broken[0]}."
        )
    return sorted(marks, key=lambda mark: mark.night), notes


def extend(
    history: Iterable[CellResult], tonight: Sequence[CellResult], night: str
) -> list[CellResult]:
    """Replace the results of ``night`` in the history. Return the last ``NIGHTS`` nights."""
    others = [mark for mark in history if mark.night != night]
    nights = set(sorted({mark.night for mark in others} | {night})[-NIGHTS:])
    everything = sorted([*others, *tonight], key=lambda mark: mark.night)
    return [mark for mark in everything if mark.night in nights]


def write(path: Path, marks: Iterable[CellResult]) -> Path:
    """Write a history atomically."""
    try:
        write_whole(path, b"".join(msgspec.json.encode(mark) + b"\n" for mark in marks))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", hint="Choose another folder with --out."
        ) from error
    return path
