"""Read Kafka's checkpoint files: offsets and leader epochs that a broker last wrote to disk.

A checkpoint file is a text file: a version (0), the number of entries, and one entry per line.
Kafka writes a temporary file and renames it, so an incomplete checkpoint file is damaged. An empty
checkpoint file is valid, because a broker creates it when it starts. Source: CheckpointFile,
OffsetCheckpointFile, LeaderEpochCheckpointFile (storage module; before 2.8
kafka.server.checkpoints).
"""

from pathlib import Path
from typing import Final

from highwater.harness.base.errors import StoreError
from highwater.harness.base.files import read_regular

HIGH_WATERMARK: Final = "replication-offset-checkpoint"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"

_VERSION: Final = "0"

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


class CheckpointError(StoreError):
    """A checkpoint file is missing or malformed; the message names the line."""


def read_offsets(path: Path) -> Offsets:
    """Return the offset of each partition in a file of HWs, recovery points or log start offsets.

    Raises:
        CheckpointError: the file cannot be read, or is malformed.
    """
    return parse_offsets(_text(path), path)


def parse_offsets(text: str, origin: Path) -> Offsets:
    """Return the offsets in a checkpoint file's text. ``origin`` is the file that errors name.

    Raises:
        CheckpointError: the text is malformed.
    """
    offsets: Offsets = {}
    for line, (topic, partition, offset) in _entries(text, origin, width=3):
        key = (topic, _number(origin, line, partition))
        if key in offsets:
            raise _malformed(origin, line, f"{topic}-{partition} has a second entry")
        offsets[key] = _number(origin, line, offset)
    return offsets


def read_epochs(path: Path) -> tuple[tuple[int, int], ...]:
    """Return a replica's leader epochs, each with its start offset, in order (KIP-101).

    Raises:
        CheckpointError: the file cannot be read, is malformed, or its epochs do not increase.
    """
    epochs: list[tuple[int, int]] = []
    for line, (epoch, start) in _entries(_text(path), path, width=2):
        entry = (_number(path, line, epoch), _number(path, line, start))
        if epochs and (entry[0] <= epochs[-1][0] or entry[1] < epochs[-1][1]):
            raise _malformed(
                path, line, f"epoch {epoch} from offset {start} comes after {epochs[-1]}"
            )
        epochs.append(entry)
    return tuple(epochs)


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not a text file: {error}") from error


def _entries(text: str, path: Path, *, width: int) -> list[tuple[int, list[str]]]:
    """Return the line number and the words of each entry, and check the number of words."""
    lines = text.splitlines()
    if not lines:
        return []  # the broker created the file when it started, and has not written it yet
    if lines[0].strip() != _VERSION:
        raise _malformed(path, 1, f"unknown version {lines[0]!r}")
    count = _number(path, 2, lines[1]) if len(lines) > 1 else -1
    entries = [(line, words.split()) for line, words in enumerate(lines[2:], start=3)]
    if len(entries) != count:
        raise _malformed(
            path, 2, f"the file has {len(entries)} entries, but its second line announces {count}"
        )
    for line, words in entries:
        if len(words) != width:
            raise _malformed(path, line, f"the line has {len(words)} words instead of {width}")
    return entries


def _number(path: Path, line: int, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _malformed(path, line, f"the file has {text!r} instead of a number of 0 or more")
    return int(text)


def _malformed(path: Path, line: int, problem: str) -> CheckpointError:
    return CheckpointError(
        f"{path} line {line}: {problem}",
        hint="The broker is judged as if it had no checkpoint. Keep the file, because it is "
        "evidence.",
    )
