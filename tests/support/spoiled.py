"""Every file of a run, one at a time, spoilt in every way; and what may be said of such a run.

A claim is a sentence that needs the evidence which the spoilt file was.
"""

import contextlib
import ctypes
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from highwater.harness.runs import manifest
from highwater.harness.runs.history import TABLES
from highwater.harness.runs.store import Run

_CAPABILITY_VERSION: Final = 0x20080522
_READS_ALL: Final = (1 << 1) | (1 << 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root reads what nobody may (capability.h)."""

UNSUPPORTED: Final = (
    r"unexplained",
    r"No rule of replication",
    r"The model predicted",
    r"lacks? committed records",
    r"is corrupt|are corrupt",
    r"Promise kept",
    r"No fault was injected",
    r"as predicted\b",
    r"(lost-write|divergence|corrupt|missing|phantom)\s*✓ held",
    r"Error\(",
    r"Traceback",
)
"""What no page and no terminal says of a run of which a judged file is no evidence."""

UNCOUNTED: Final = (
    r"kept (all|its)",
    r"returned \d",
    r"lost \d[\d,]* of",
    r"Every record is accounted for",
    r"sent \d[\d,]* = ",
    r"final read passed all",
    r"was read and never sent|were read and never sent",
    r"None was injected\.",
)
"""Nor of one whose history is none."""

UNFINISHED: Final = (
    *UNSUPPORTED,
    *UNCOUNTED[:4],
    *UNCOUNTED[5:7],
    r"no reader reached",
    r"reported no problem",
    r"The replicas at the end",
    r"None was injected\.",
)
"""Nor of one that was cut short."""


def close(run: Run) -> Run:
    """Let a run that a builder made end as the harness ends one: with a manifest."""
    made = {name: run.parquet(name) for name in TABLES if run.parquet(name).exists()}
    rows = {name: pq.read_metadata(path).num_rows for name, path in made.items()}
    digest = manifest.record(run, rows)
    status = msgspec.structs.replace(run.status(), manifest=digest)
    run.write_struct("status.json", status)
    return run


def judged(run: Run) -> frozenset[str]:
    """Return the files whose change must be noticed."""
    text = (run.path / manifest.NAME).read_bytes()
    files = msgspec.json.decode(text, type=manifest.Manifest).files
    named = {*files, "status.json", manifest.NAME}
    folders = {str(folder) for path in named for folder in Path(path).parents}
    return frozenset((named | folders) - {"."})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """A copy of a run in which one file is not what it was."""

    run: Run
    path: str
    how: str

    @property
    def name(self) -> str:
        """What a failed test says."""
        return f"{self.path} {self.how}"


Spoil = Callable[[Path, Path], None]


def _unreadable(file: Path, _: Path) -> None:
    file.chmod(0)


def _missing(file: Path, _: Path) -> None:
    file.unlink()


def _cut(file: Path, _: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _emptied(file: Path, _: Path) -> None:
    os.truncate(file, 0)


def _folder(file: Path, _: Path) -> None:
    file.unlink()
    file.mkdir()


def _zeros(file: Path, _: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _pipe(file: Path, _: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _failing(file: Path, _: Path) -> None:
    """A regular file whose bytes the kernel does not give: input/output error."""
    file.unlink()
    file.symlink_to("/proc/self/mem")


def _others(file: Path, other: Path) -> None:
    shutil.copyfile(other, file)


WAYS: Final[dict[str, Spoil]] = {
    "unreadable": _unreadable,
    "missing": _missing,
    "cut": _cut,
    "emptied": _emptied,
    "a-folder": _folder,
    "zeros": _zeros,
    "a-pipe": _pipe,
    "failing": _failing,
    "anothers": _others,
}


def files(run: Run) -> list[str]:
    """Return every file of a run that its harness wrote, from the run directory."""
    found = (path for path in run.path.rglob("*") if path.is_file() and not path.is_symlink())
    paths = (path.relative_to(run.path).as_posix() for path in found)
    return sorted(path for path in paths if not path.startswith(("analysis/", "report.html")))


def folders(run: Run) -> list[str]:
    """Return every folder of a run that its harness made, from the run directory."""
    found = {str(folder) for path in files(run) for folder in Path(path).parents}
    return sorted(found - {"."})


def sweep(run: Run, other: Run, home: Path) -> Iterator[Spoilt]:
    """Copy a run once for each of its files and each way to spoil it.

    Args:
        run: closed, see ``close``.
        other: whose file of the same path, or plan, takes a file's place.
        home: where the copies go.
    """
    for number, path in enumerate(files(run)):
        for how, spoil in WAYS.items():
            copy = Run(home / f"{number}-{how}")
            _copy(run, copy)
            file = copy.path / path
            before = file.read_bytes()
            file.unlink()
            shutil.copy2(run.path / path, file)
            donor = other.path / path
            spoil(file, donor if donor.is_file() else other.path / "plan.json")
            if how in ("unreadable", "a-pipe") or not file.is_file() or _differs(file, before):
                yield Spoilt(run=copy, path=path, how=how)
            else:
                shutil.rmtree(copy.path)
    for number, path in enumerate(folders(run)):
        for how in ("closed", "gone"):
            copy = Run(home / f"folder-{number}-{how}")
            _copy(run, copy)
            if how == "gone":
                shutil.rmtree(copy.path / path)
            else:
                (copy.path / path).chmod(0)
            yield Spoilt(run=copy, path=path, how=how)


def _copy(run: Run, copy: Run) -> None:
    """Copy a run by links: what is spoilt is made a file of its own."""
    shutil.copytree(
        run.path,
        copy.path,
        symlinks=True,
        ignore=shutil.ignore_patterns("analysis", "report.html"),
        copy_function=os.link,
    )


def _differs(file: Path, before: bytes) -> bool:
    try:
        return file.read_bytes() != before
    except OSError:
        return True


def shown(page: Path) -> str:
    """Return the words of a page, as a person sees them; nothing where there is no page."""
    html = page.read_text("utf-8") if page.is_file() else ""
    return re.sub(r"(?s)<style.*?</style>|<[^>]*>", "", html)


def claims(text: str, patterns: tuple[str, ...]) -> list[str]:
    """Return what a text says that it must not."""
    return [found[0] for each in patterns if (found := re.search(each, text))]


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Let this thread read only what its files' permissions allow, even as root (capset(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    effective, *others = struct.unpack("=6I", data.raw)
    less = ctypes.create_string_buffer(struct.pack("=6I", effective & ~_READS_ALL, *others))
    if libc.capset(header, less):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        libc.capset(header, data)
