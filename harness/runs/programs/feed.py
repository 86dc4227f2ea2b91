"""The user's own records as the inputs of a program: a file with one JSON object per line.

Each line is a record. The expression of ``--match`` finds the record's name in the line. This name
becomes the record's key. Names identify records in the history, so every name must be unique.
"""

from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.wording import count
from highwater.harness.runs.programs.expressions import Expression, ProgramRecord

_FILE_BYTES_MOST: Final = 256 << 20
"""The greatest size of the file. The harness keeps the file in memory while it sends the inputs."""

_LETTERS_MOST: Final = 60
_HINT: Final = "Write one JSON object per line (docs/apps.md)."


def read_feed(path: str, names: Expression) -> dict[str, bytes]:
    """Return name -> record of a file, in the order of the file. Ignore empty lines.

    Args:
        names: the expression that finds an input's name. It gets the line as the value and the key.

    Raises:
        UsageError: the file cannot be used; the message has the reason and the number of the line.
    """
    records: dict[str, bytes] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(_text(path).split(b"\n"), 1):
        if not (value := line.strip()):
            continue
        name = _name(f"line {number} of {path}", value, names)
        if name in records:
            raise UsageError(
                f"lines {lines[name]} and {number} of {path} have the same name:"
                f" {name[:_LETTERS_MOST]!r}",
                hint="--match must find a name that no other line has; without --match, a record's"
                " name is the whole line.",
            )
        records[name], lines[name] = value, number
    if not records:
        raise UsageError(f"{path} has no records", hint=_HINT)
    return records


def _text(path: str) -> bytes:
    try:
        file = Path(path)
        if file.is_file() and (size := file.stat().st_size) > _FILE_BYTES_MOST:
            raise UsageError(
                f"{path} has {size:,} bytes; the limit is {_FILE_BYTES_MOST:,} bytes",
                hint=f"Use only the file's first lines: head -n 100000 {path}.",
            )
        return file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error


def _name(where: str, value: bytes, names: Expression) -> str:
    """Return the name of a record; ``where`` is its line, for errors.

    Raises:
        UsageError: the record is not a JSON object, is too long, has no name or has several names.
    """
    try:
        text = value.decode()
        msgspec.json.decode(text, type=dict)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        beginning = value[:_LETTERS_MOST].decode("utf-8", "backslashreplace")
        raise UsageError(f"{where} is not a JSON object: {beginning}", hint=_HINT) from error
    named = names(ProgramRecord(value, key=value))
    if len(named) != 1:
        has = f"{count(len(named), 'name')} instead of one" if named else "no name"
        raise UsageError(
            f"{where} has {has}: {text[:_LETTERS_MOST]}",
            hint="--match must find one name in an input and its outputs; without --match, a"
            " record's name is the whole line.",
        )
    if (size := len(value) + len(named[0].encode())) > limits.RECORD_BYTES.most:
        raise limits.out_of_range(size, *limits.RECORD_BYTES, f"bytes of key and value, {where}")
    return named[0]
