"""Replicas as they may lie on three brokers' disks, and what is said of them, all in one pass."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.inspection.report_types import InspectedPartition, Inspection
from highwater.harness.base.errors import UsageError
from highwater.reports.pages.inspection import write
from tests.support.html_pages import parsed
from tests.support.logdirs import Broker, batch, brokers, marker, plain

MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """One partition.

    Attributes:
        logs: the segments of brokers 1, 2, …: a segment's bytes from offset 0 on, or several.
        hw: each broker's high watermark; None: its checkpoint has none.
        says: words of the verdict's sentence.
        kinds: of the findings, by broker; what is left out has none.
        files: writes what else lies there.
    """

    logs: tuple[object, ...]
    verdict: str
    hw: tuple[int | None, ...] = ()
    divergent: tuple[int, ...] = ()
    below_hw: int = 0
    says: str = ""
    kinds: dict[int, tuple[str, ...]] = field(default_factory=dict)
    leo: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    stable: int | None = None
    files: Callable[[Broker, str], None] | None = None


def flipped(data: bytes, at: int, bit: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bit
    return bytes(changed)


def keyed(*pairs: tuple[int, str]) -> bytes:
    """A record a batch at these offsets, each with a key."""
    return b"".join(batch(at, [(key.encode(), b"v%d" % at)]) for at, key in pairs)


def epochs(*entries: tuple[int, int]) -> Callable[[Broker, str], None]:
    return lambda broker, name: broker.epochs(name, *entries)


def topic_id(broker: Broker, name: str) -> None:
    text = f"version: 0\ntopic_id: {'same' if broker.broker > 1 else 'other'}\n"
    (broker.path / name / "partition.metadata").write_text(text)


def one_id(broker: Broker, name: str) -> None:
    (broker.path / name / "partition.metadata").write_text("version: 0\ntopic_id: same\n")


def beside(broker: int, *files: str) -> Callable[[Broker, str], None]:
    """Files that lie in one broker's replica."""

    def write_files(of: Broker, name: str) -> None:
        for file in files if of.broker == broker else ():
            (of.path / name / file).touch()

    return write_files


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 53321\n"
SIX = plain("abcdef")
SIZE = len(SIX) // 6
LEGACY = b"".join(batch(at, [(None, b"w%d" % at)], magic=1) for at in range(6))
COMMITTED = batch(0, [(None, b"x"), (None, b"y")], producer=(7, 0, 0), transactional=True)
COMMITTED += marker(2, producer=7, commit=True)
ABORTED = batch(3, [(None, b"z")], producer=(7, 0, 2), transactional=True)
ABORTED += marker(4, producer=7, commit=False)
OPEN = batch(5, [(None, b"o")], producer=(8, 0, 0), transactional=True)
LATER = batch(6, [(None, b"l")], time_ms=1000 + 16 * MINUTE_MS)
EMPTIED = batch(0, [(b"k", b"1")]) + batch(1, [], deltas=[], producer=(9, 0, 0))

CASES = {
    "same": Case(logs=(SIX,) * 3, verdict="agree", hw=(6, 6, 5), leo=(6, 6, 6)),
    "legacy": Case(logs=(LEGACY,) * 3, verdict="agree", leo=(6, 6, 6)),
    "alone": Case(logs=(SIX,), verdict="alone", says="The only replica is valid"),
    "lag": Case(
        logs=(SIX[: 4 * SIZE], SIX, SIX),
        verdict="lag",
        hw=(4, 4, 4),
        leo=(4, 6, 6),
        says="broker 1 ends at 4, 2 behind",
    ),
    "retention": Case(
        logs=(SIX, ((4, SIX[4 * SIZE :]),), SIX),
        verdict="agree",
        start=(0, 4, 0),
        leo=(6, 6, 6),
        kinds={2: ("late-start",)},
    ),
    "all-deleted": Case(
        logs=(((6, b""),), SIX, SIX),
        verdict="agree",
        leo=(6, 6, 6),
        kinds={1: ("late-start",)},
    ),
    "empty": Case(logs=(b"", b"", b""), verdict="agree", leo=(0, 0, 0), files=epochs((3, 0))),
    "empty-behind": Case(logs=(b"", SIX, SIX), verdict="lag", leo=(0, 6, 6)),
    "rolled": Case(logs=(SIX, ((0, SIX[: 2 * SIZE]), (2, SIX[2 * SIZE :])), SIX), verdict="agree"),
    "other-batches": Case(
        logs=(batch(0, [(None, b"a"), (None, b"b")]), plain("ab"), plain("ab")), verdict="agree"
    ),
    "fork-below": Case(
        logs=(
            plain("ab") + plain("x", base=2, epoch=1),
            plain("ab") + plain("y", base=2, epoch=2),
            plain("ab") + plain("y", base=2, epoch=2),
        ),
        verdict="fork",
        hw=(3, 3, 3),
        divergent=(2,),
        below_hw=1,
        says="broker 1 in epoch 1, broker 2 in epoch 2",
    ),
    "fork-above": Case(
        logs=(plain("abx"), plain("aby"), plain("ab")),
        verdict="fork",
        hw=(2, 3, 2),
        divergent=(2,),
        says="above the last checkpointed HW of some replica (broker",
    ),
    "fork-unknown": Case(
        logs=(plain("abx"), plain("aby")),
        verdict="fork",
        divergent=(2,),
        says="no checkpoint file has the HW",
    ),
    "fork-epoch": Case(
        logs=(plain("ab"), plain("a") + plain("b", base=1, epoch=4)),
        verdict="fork",
        divergent=(1,),
    ),
    "fork-legacy": Case(
        logs=(LEGACY, LEGACY[: -len(LEGACY) // 6] + batch(5, [(None, b"!5")], magic=1)),
        verdict="fork",
        hw=(6, 6),
        divergent=(5,),
        below_hw=1,
    ),
    "fork-key": Case(
        logs=(keyed((0, "k"), (1, "l")), keyed((0, "k"), (1, "m"))), verdict="fork", divergent=(1,)
    ),
    "flip": Case(
        logs=(SIX, flipped(SIX, 3 * SIZE - 2), SIX),
        verdict="corrupt",
        kinds={2: ("corrupt",)},
        leo=(6, 6, 6),
    ),
    "flip-length": Case(
        logs=(SIX, flipped(SIX, SIZE + 8, 0x40), SIX), verdict="corrupt", kinds={2: ("corrupt",)}
    ),
    "flip-and-an-offset": Case(  # the second batch says that it begins at 0
        logs=(SIX, flipped(flipped(SIX, SIZE - 2), SIZE + 7), SIX),
        verdict="corrupt",
        kinds={2: ("corrupt", "hole")},
    ),
    "flip-and-the-last-offset": Case(  # what is broken claims the offsets up to 4097
        logs=(plain("abcdefgh"), flipped(flipped(SIX, SIZE + 25, 0x10), 5 * SIZE + 7, 0x02)),
        verdict="corrupt",
        kinds={2: ("corrupt",)},
    ),
    "doubled": Case(  # two whole batches say that they begin at 2
        logs=(SIX, SIX[: 2 * SIZE] + plain("x", base=2) + SIX[2 * SIZE :], SIX),
        verdict="corrupt",
        kinds={2: ("corrupt",)},
    ),
    "flip-and-a-fork": Case(
        logs=(SIX, flipped(plain("abcdxf"), SIZE - 2), SIX),
        verdict="fork",
        divergent=(4,),
        kinds={2: ("corrupt",)},
    ),
    "flip-last-length": Case(
        logs=(SIX, flipped(SIX, 5 * SIZE + 9, 0x40), SIX),
        verdict="corrupt",
        kinds={2: ("corrupt",)},
    ),
    "flip-last-offset": Case(
        logs=(SIX, flipped(SIX, 5 * SIZE + 7, 0x08), SIX), verdict="corrupt", kinds={2: ("hole",)}
    ),
    "flip-last-offset-behind": Case(
        logs=(SIX + plain("ghijklmnop", base=6), flipped(SIX, 5 * SIZE + 7, 0x08)),
        verdict="corrupt",
        kinds={2: ("hole",)},
    ),
    "flip-epoch": Case(
        logs=(SIX, flipped(SIX, 2 * SIZE + 15, 0x08), SIX),
        verdict="corrupt",
        kinds={2: ("epoch-order", "epoch-broken")},
    ),
    "flip-last-epoch": Case(
        logs=(SIX, flipped(SIX, 5 * SIZE + 15, 0x08), SIX),
        verdict="corrupt",
        kinds={2: ("epoch-list", "epoch-broken")},
        files=epochs((0, 0)),
    ),
    "torn": Case(
        logs=(SIX, SIX[:-3], SIX),
        verdict="lag",
        hw=(5, 5, 5),
        leo=(6, 5, 6),
        kinds={2: ("torn-tail",)},
    ),
    "torn-as-in-the-midst-of-a-write": Case(
        logs=(SIX + batch(6, [(None, b"g" * 99)])[:80], SIX),
        verdict="agree",
        kinds={1: ("torn-tail",)},
    ),
    "torn-inside": Case(
        logs=(SIX, ((0, SIX[: 2 * SIZE - 3]), (2, SIX[2 * SIZE :])), SIX),
        verdict="unknown",
        says="the rest was never written. Possible causes are an incomplete copy",
        kinds={2: ("torn-segment",)},
    ),
    "torn-inside-before-its-header-ends": Case(
        logs=(SIX, ((0, SIX[: SIZE + 9]), (2, SIX[2 * SIZE :])), SIX),
        verdict="unknown",
        kinds={2: ("torn-segment",)},
    ),
    "preallocated": Case(logs=(SIX + bytes(999), SIX), verdict="agree", kinds={1: ("zeros",)}),
    "rolled-and-preallocated": Case(
        logs=(((0, SIX), (6, bytes(999))), SIX),
        verdict="agree",
        leo=(6, 6),
        kinds={1: ("zeros",)},
    ),
    "preallocated-and-cut-late": Case(
        logs=(((0, SIX[: 2 * SIZE] + bytes(999)), (2, SIX[2 * SIZE :])), SIX),
        verdict="agree",
        kinds={1: ("zeros",)},
    ),
    "preallocated-and-nothing-to-have": Case(
        logs=(((6, bytes(999)),),) * 2,
        verdict="agree",
        hw=(6, 6),
        leo=(6, 6),
        kinds=dict.fromkeys((1, 2), ("zeros", "late-start")),
    ),
    "zeros": Case(
        logs=(bytes(999),) * 2,
        verdict="unknown",
        says="has zeros from byte 0 on, and the log has no record",
        kinds={1: ("zeros",), 2: ("zeros",)},
    ),
    "zeros-alone": Case(logs=(bytes(999),), verdict="unknown", kinds={1: ("zeros",)}),
    "zeros-and-a-high-watermark": Case(  # a failed copy looks like that, too
        logs=(bytes(999),) * 2,
        verdict="unknown",
        hw=(6, 6),
        kinds={1: ("zeros", "hw-above-leo"), 2: ("zeros", "hw-above-leo")},
    ),
    "zeros-beside-records": Case(
        logs=(bytes(999), SIX, SIX), verdict="unknown", kinds={1: ("zeros",)}
    ),
    "zeros-in-the-middle": Case(
        logs=(((0, SIX[: 2 * SIZE]), (2, bytes(999)), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        kinds={1: ("zeros",)},
    ),
    "zeros-in-front": Case(
        logs=(((0, bytes(999)), (2, SIX[2 * SIZE :])), SIX),
        verdict="unknown",
        says="has zeros from byte 0 on, instead of records up to offset 1.",
        kinds={1: ("zeros",)},
    ),
    "zeros-everywhere": Case(  # more stretches than are told one by one
        logs=(tuple((base, bytes(99)) for base in range(25)),) * 2,
        verdict="unknown",
        kinds=dict.fromkeys((1, 2), ("zeros",) * 20 + ("unreadable",)),
    ),
    "hole": Case(
        logs=(SIX[: 2 * SIZE] + SIX[3 * SIZE :], SIX, SIX),
        verdict="corrupt",
        kinds={1: ("hole",)},
        says="lacks 1 record",
    ),
    "hole-behind-another's-offset": Case(  # the body of 4 stands behind the offset of 2
        logs=(SIX[: 2 * SIZE + 8] + SIX[4 * SIZE + 8 :], SIX, SIX),
        verdict="corrupt",
        kinds={1: ("hole",)},
        says="lacks 2 record",
    ),
    "torn-behind-another's-offset": Case(  # the body of 2 stands behind the offset of 0
        logs=(SIX[:8] + SIX[2 * SIZE + 8 : 3 * SIZE + 40], SIX, SIX),
        verdict="lag",
        kinds={1: ("torn-tail",)},
    ),
    "doubled-behind-another's-offset": Case(  # the body of 1 stands behind the offset of 3
        logs=(SIX[: 3 * SIZE + 8] + SIX[SIZE + 8 : 2 * SIZE + 40], SIX, SIX),
        verdict="corrupt",
        kinds={1: ("corrupt",)},
    ),
    "overlap": Case(
        logs=(((0, SIX), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        says="This happens if a copy was written into the directory of an older copy.",
        kinds={1: ("overlap",)},
    ),
    "overlap-with-what-was-truncated-since": Case(
        logs=(((0, SIX), (4, plain("xy", base=4))), SIX, SIX),
        verdict="unknown",
        kinds={1: ("overlap",)},
    ),
    "overlap-and-a-fork-before": Case(
        logs=(((0, SIX), (4, SIX[4 * SIZE :])), plain("axcdef")),
        verdict="fork",
        divergent=(1,),
        kinds={1: ("overlap",)},
    ),
    "backwards": Case(
        logs=(SIX + SIX[: 2 * SIZE], SIX), verdict="corrupt", kinds={1: ("corrupt", "corrupt")}
    ),
    "compacted": Case(
        logs=(keyed((0, "k"), (1, "l"), (2, "k")), keyed((1, "l"), (2, "k"))), verdict="agree"
    ),
    "compacted-inside": Case(
        logs=(keyed((0, "k"), (1, "l"), (2, "l")), keyed((0, "k"), (2, "l"))), verdict="agree"
    ),
    "not-by-compaction": Case(
        logs=(keyed((0, "k"), (1, "l"), (2, "m")), keyed((0, "k"), (2, "m"))),
        verdict="corrupt",
        kinds={2: ("hole",)},
    ),
    "emptied": Case(logs=(EMPTIED, EMPTIED), verdict="agree", leo=(2, 2)),
    "hw-above": Case(
        logs=(SIX[: 4 * SIZE], SIX),
        verdict="lag",
        hw=(6, 6),
        kinds={1: ("hw-above-leo",)},
    ),
    "hw-above-all": Case(  # both lost their ends, or both copies lack their last segment
        logs=(SIX, SIX),
        verdict="unknown",
        hw=(8, 6),
        says="HW is 8, but its log ends at 6: 2 committed records are missing. No inspected",
        kinds={1: ("hw-above-leo",)},
    ),
    "epochs": Case(
        logs=(plain("ab") + plain("cd", base=2, epoch=3),),
        verdict="alone",
        files=epochs((0, 0), (3, 2)),
    ),
    "epochs-contradict": Case(
        logs=(plain("ab") + plain("cd", base=2, epoch=3),) * 2,
        verdict="agree",
        files=epochs((0, 0), (3, 3)),
        kinds={1: ("epoch-list",), 2: ("epoch-list",)},
    ),
    "epochs-end-early": Case(
        logs=(SIX,), verdict="alone", files=epochs((0, 0), (1, 2)), kinds={1: ("epoch-list",)}
    ),
    "epochs-lack": Case(
        logs=(plain("ab") + plain("cd", base=2, epoch=3),),
        verdict="alone",
        files=epochs((0, 0)),
        kinds={1: ("epoch-list",)},
    ),
    "epochs-beyond": Case(
        logs=(SIX,), verdict="unknown", files=epochs((0, 0), (1, 9)), kinds={1: ("epoch-list",)}
    ),
    "epoch-began": Case(logs=(SIX,), verdict="alone", files=epochs((0, 0), (1, 6))),
    "committed": Case(logs=(COMMITTED,) * 2, verdict="agree", stable=3),
    "aborted": Case(logs=(COMMITTED + ABORTED,) * 2, verdict="agree", stable=5),
    "open": Case(
        logs=(COMMITTED + ABORTED + OPEN,) * 2,
        verdict="agree",
        stable=5,
        kinds={1: ("open-transaction",), 2: ("open-transaction",)},
    ),
    "hanging": Case(
        logs=(COMMITTED + ABORTED + OPEN + LATER,),
        verdict="alone",
        stable=5,
        kinds={1: ("hanging-transaction",)},
    ),
    "bare-marker": Case(
        logs=(marker(0, producer=7, commit=True) + plain("a", base=1),),
        verdict="alone",
        kinds={1: ("bare-marker",)},
    ),
    "repeated": Case(
        logs=(
            batch(0, [(None, b"x"), (None, b"y")], producer=(7, 0, 0))
            + batch(2, [(None, b"x"), (None, b"y")], producer=(7, 0, 0)),
        ),
        verdict="alone",
        kinds={1: ("repeated-sequence",)},
    ),
    "fenced": Case(
        logs=(
            batch(0, [(None, b"x")], producer=(7, 0, 0))
            + batch(1, [(None, b"x")], producer=(7, 1, 0)),
        ),
        verdict="alone",
    ),
    "no-logs": Case(  # as a .gitignore leaves them
        logs=((), (), ()),
        verdict="unknown",
        hw=(6, 6, 6),
        files=epochs((0, 0)),
        says="The replica's folder has no segment (no *.log; only leader-epoch-checkpoint).",
        kinds=dict.fromkeys((1, 2, 3), ("missing-segment",)),
    ),
    "no-log-beside-others": Case(
        logs=(SIX, (), SIX),
        verdict="unknown",
        hw=(6, 6, 6),
        files=epochs((0, 0)),
        kinds={2: ("missing-segment",)},
    ),
    "index-without-its-log": Case(
        logs=(SIX, ((0, SIX[: 2 * SIZE]), (4, SIX[4 * SIZE :]))),
        verdict="unknown",
        files=beside(2, f"{2:020d}.index", f"{2:020d}.timeindex"),
        says=f"has the indexes of {2:020d}.log, but not the segment files",
        kinds={2: ("missing-segment", "missing-segment")},
    ),
    "index-of-a-segment-that-is-deleted": Case(  # LogSegment renames the log first
        logs=(SIX, ((2, SIX[2 * SIZE :]),)),
        verdict="agree",
        files=beside(2, f"{0:020d}.log.deleted", f"{0:020d}.index"),
        kinds={2: ("late-start",)},
    ),
    "no-middle": Case(
        logs=(((0, SIX[: 2 * SIZE]), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        says="No segment contains offsets 2 to 3.",
        kinds={1: ("missing-segment",)},
    ),
    "no-middle-and-alone": Case(
        logs=(((0, SIX[: 2 * SIZE]), (4, SIX[4 * SIZE :])),),
        verdict="unknown",
        kinds={1: ("missing-segment",)},
    ),
    "no-middle-and-a-fork-behind": Case(
        logs=(((0, SIX[: 2 * SIZE]), (4, plain("ex", base=4))), SIX),
        verdict="fork",
        divergent=(5,),
        kinds={1: ("missing-segment",)},
    ),
    "empty-middle": Case(
        logs=(((0, SIX[: 2 * SIZE]), (2, b""), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        kinds={1: ("missing-segment",)},
    ),
    "no-first-by-its-epochs": Case(
        logs=(((4, SIX[4 * SIZE :]),),) * 2,
        verdict="unknown",
        files=epochs((0, 0)),
        says="log begins with offset 4, but its file leader-epoch-checkpoint says that the log "
        "begins",
        kinds={1: ("missing-segment",), 2: ("missing-segment",)},
    ),
    "deleted-by-retention": Case(
        logs=(((4, SIX[4 * SIZE :]),),) * 2, verdict="agree", files=epochs((0, 4))
    ),
    "begins-late-without-a-word": Case(
        logs=(SIX, ((4, SIX[4 * SIZE :]),)),
        verdict="agree",
        says="whether retention or an incomplete copy shortened the log of broker 2.",
        kinds={2: ("late-start",)},
    ),
    "begins-late-and-another-says-why": Case(
        logs=(((4, SIX[4 * SIZE :]),),) * 2,
        verdict="agree",
        files=lambda broker, name: broker.epochs(name, (0, 4)) if broker.broker == 1 else None,
    ),
    "no-last-by-a-snapshot": Case(
        logs=(SIX, SIX),
        verdict="unknown",
        files=beside(1, f"{6:020d}.snapshot", f"{9:020d}.snapshot"),
        says="its log ends at 6. No inspected replica reaches that offset.",
        kinds={1: ("snapshot-above-leo",)},
    ),
    "pointer": Case(
        logs=(POINTER, POINTER),
        verdict="unknown",
        hw=(6, 6),
        says=f"{0:020d}.log is no Kafka log but a Git LFS pointer",
        kinds={1: ("unreadable",), 2: ("unreadable",)},
    ),
    "pointer-in-the-middle": Case(
        logs=(((0, SIX[: 2 * SIZE]), (2, POINTER), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        kinds={1: ("unreadable",)},
    ),
    "words-and-a-log": Case(  # a saved response, an archive of cpio
        logs=(b"HTTP/1.1 200 OK\r\nAge: 9\r\n\r\n" + SIX, SIX),
        verdict="unknown",
        says='is no Kafka log but text that begins with "HTTP/1.1 200 OK Age: 9"',
        kinds={1: ("unreadable",)},
    ),
    "words-in-utf-16": Case(
        logs=("Zugriff verweigert".encode("utf-16"), SIX),
        verdict="unknown",
        says='text in UTF-16 that begins with "Zugriff verweigert"',
        kinds={1: ("unreadable",)},
    ),
    "words-in-latin-1": Case(
        logs=("Die Kopie schlug fehl für orders".encode("latin-1"), SIX),
        verdict="unknown",
        says='text that begins with "Die Kopie schlug fehl f"',
        kinds={1: ("unreadable",)},
    ),
    "zeros-and-other-bytes": Case(  # an image of a disk
        logs=(bytes(5000) + bytes(range(1, 256)) * 9, SIX),
        verdict="unknown",
        says="bytes that contain no batch",
        kinds={1: ("unreadable",)},
    ),
    "another-segment": Case(  # a copy under a wrong name
        logs=(((0, SIX[: 2 * SIZE]), (2, SIX[: 2 * SIZE]), (4, SIX[4 * SIZE :])), SIX),
        verdict="unknown",
        says=f"{2:020d}.log is no Kafka log but the log of another segment, of offsets 0 to 1",
        kinds={1: ("unreadable",)},
    ),
    "zeros-and-a-log": Case(
        logs=(bytes(SIZE) + SIX[SIZE:], SIX), verdict="corrupt", kinds={1: ("corrupt",)}
    ),
    "nothing-shared": Case(
        logs=(((9, plain("xyz", base=9)),), SIX),
        verdict="lag",
        says="broker 2 ends at 6, 6 behind. No two of these replicas have a common offset.",
        files=lambda broker, name: broker.epochs(name, (0, 9)) if broker.broker == 1 else None,
    ),
    "begins-well-and-goes-bad": Case(
        logs=(SIX[: 2 * SIZE] + POINTER, SIX), verdict="corrupt", kinds={1: ("corrupt",)}
    ),
    "nothing-in-common": Case(  # written by a release without topic ids, or of another cluster
        logs=(SIX, SIX, plain("uvw")),
        verdict="unknown",
        hw=(6, 6, 3),
        says="The logs of brokers 1 and 2, of broker 3 differ at each of the 3 offsets",
    ),
    "nothing-in-common-by-time": Case(  # the same words, written again
        logs=(
            SIX,
            b"".join(batch(at, [(None, b"abcdef"[at : at + 1])], time_ms=9000) for at in range(5))
            + plain("x", base=5),
        ),
        verdict="unknown",
        says="Their cluster id 4L6g3nShT-eMCtK--X86sw is used in many quickstarts",
    ),
    "nothing-in-common-and-a-fork": Case(
        logs=(SIX, plain("abcdex"), plain("uvw")),
        verdict="fork",
        divergent=(5,),
    ),
    "nothing-in-common-of-one-topic": Case(
        logs=(SIX, plain("uvw")), verdict="fork", divergent=(0, 1, 2), files=one_id
    ),
    "compacted-without-a-word": Case(  # a tombstone is gone, and cleaner-offset-checkpoint, too
        logs=(
            keyed((0, "k")) + batch(1, [(b"l", None)]) + keyed((2, "m")),
            keyed((0, "k"), (2, "m")),
        ),
        verdict="unknown",
        kinds={2: ("no-cleaner-checkpoint",)},
    ),
    "anew": Case(logs=(SIX, SIX), verdict="alone", files=topic_id),
}


def tree(path: Path) -> dict[str, tuple[int, str]]:
    """Of every file and folder when it was modified, and what it holds."""
    return {
        str(each): (
            each.lstat().st_mtime_ns,
            hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "",
        )
        for each in [path, *path.rglob("*")]
    }


def lay_out(path: Path) -> None:
    made = brokers(path)
    for broker in made:
        with (broker.path / "meta.properties").open("a") as file:
            file.write("cluster.id=4L6g3nShT-eMCtK--X86sw\n")
    for name, case in CASES.items():
        for broker, log in zip(made, case.logs, strict=False):
            segments = log if isinstance(log, tuple) else (log,)
            broker.log(f"{name}-0", *segments)
            if case.files:
                case.files(broker, f"{name}-0")
    for index, broker in enumerate(made):
        told = {
            name: case.hw[index]
            for name, case in CASES.items()
            if index < len(case.hw) and case.hw[index] is not None
        }
        broker.checkpoint(
            "replication-offset-checkpoint", {f"{name}-0": hw for name, hw in told.items() if hw}
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("disks")
    lay_out(path)
    return path


@pytest.fixture(scope="module")
def inspected(folder: Path, spark: SparkSession) -> Inspection:
    before = tree(folder)
    found = inspect([folder], spark)
    assert tree(folder) == before
    return found


def of(found: Inspection, topic: str) -> InspectedPartition:
    return next(each for each in found.partitions if each.topic == topic)


@pytest.mark.parametrize("name", CASES)
def test_a_partition(name: str, inspected: Inspection) -> None:
    case, found = CASES[name], of(inspected, name)
    assert found.verdict == case.verdict, found.says
    assert found.divergent_offsets == case.divergent
    assert (found.divergent, found.below_hw) == (len(case.divergent), case.below_hw)
    assert case.says in found.says
    kinds = {one.broker: tuple(each.kind for each in one.findings) for one in found.replicas}
    assert {broker: own for broker, own in kinds.items() if own} == case.kinds
    if case.leo:
        assert tuple(one.leo for one in found.replicas) == case.leo
    if case.start:
        assert tuple(one.start for one in found.replicas) == case.start
    if case.stable is not None:
        assert found.replicas[0].last_stable_offset == case.stable


def test_the_whole_is_as_bad_as_its_worst(inspected: Inspection) -> None:
    assert inspected.verdict == "fork"
    assert [each.kind for each in of(inspected, "alone").findings] == ["alone"]
    others, incomplete = sorted(inspected.notes)
    assert "Possible causes are a .gitignore, an rsync filter" in incomplete
    assert others.startswith("2 topics have the name anew")


def test_another_topic_id_is_another_topic(inspected: Inspection) -> None:
    anew = [each for each in inspected.partitions if each.topic == "anew"]
    held = [(each.topic_id, [one.broker for one in each.replicas]) for each in anew]
    assert held == [("other", [1]), ("same", [2])]
    assert [each.verdict for each in anew] == ["alone", "alone"]
    assert not any(each.stray for each in anew)


def test_what_stands_at_a_divergent_offset_is_shown(inspected: Inspection) -> None:
    (shown,) = of(inspected, "fork-below").shown
    held = [(copy.broker, copy.epoch, copy.value) for copy in shown.copies]
    assert held == [(1, 1, "x"), (2, 2, "y"), (3, 2, "y")]
    assert shown.below_hw


def test_transactions_are_counted(inspected: Inspection) -> None:
    one = of(inspected, "open").replicas[0]
    assert (one.committed, one.aborted, one.aborted_ranges) == (1, 1, ((7, 3, 4),))


def test_epochs_are_told_as_the_log_and_as_the_list_has_them(inspected: Inspection) -> None:
    one = of(inspected, "epochs").replicas[0]
    assert [(each.epoch, each.first, each.last) for each in one.epochs] == [(0, 0, 1), (3, 2, 3)]
    assert one.epoch_checkpoint == ((0, 0), (3, 2))
    empty = of(inspected, "empty").replicas[0]
    assert (empty.epochs, empty.epoch_checkpoint) == ((), ((3, 0),))


def test_the_page_is_one_file_and_escaped(inspected: Inspection, tmp_path: Path) -> None:
    evil = msgspec.structs.replace(
        of(inspected, "fork-below"), topic="<script>x", says="<b>bold</b>"
    )
    changed = msgspec.structs.replace(inspected, partitions=(*inspected.partitions, evil))
    page = write(changed, tmp_path / "inspect.html")
    found = parsed(page)
    assert {tag for tag, _ in found.seen} & {"script", "img", "iframe", "b1", "form"} == set()
    text = page.read_text()
    assert "default-src &#39;none&#39;" in text
    assert "&lt;b&gt;bold" in text
    assert text.count("<table") == text.count("<caption")


def test_a_cleaners_word_may_be_older_than_its_log(tmp_path: Path, spark: SparkSession) -> None:
    """A tombstone that it does not cover may be gone; not a value, nor what was never cleaned."""
    tombstone = keyed((0, "k")) + batch(1, [(b"l", None)]) + keyed((2, "m"))
    value = keyed((0, "k"), (1, "l"), (2, "m"))
    without = keyed((0, "k"), (2, "m"))
    for broker in brokers(tmp_path, 2):
        for name, whole in (("tombstone", tombstone), ("value", value), ("never", tombstone)):
            broker.log(f"{name}-0", whole if broker.broker == 1 else without)
        broker.checkpoint("cleaner-offset-checkpoint", {"tombstone-0": 0, "value-0": 0})
    found = {each.topic: each for each in inspect([tmp_path], spark).partitions}
    verdicts = {"tombstone": "unknown", "value": "corrupt", "never": "corrupt"}
    assert {topic: each.verdict for topic, each in found.items()} == verdicts
    assert "which would prove this, is older." in found["tombstone"].says


@pytest.mark.parametrize(
    ("named", "names", "verdict"),
    [
        ((True, True, False), ("b1", "b2", "b1-old"), "unknown"),
        ((False, False, False), ("data", "data-old", "other"), "unknown"),
        ((True, True, False), ("b1", "b2", "b3"), "fork"),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (
                ((True, True, True), ("b1", "b2", "b1-old"), "unknown"),
                ((True, False, False), ("b1", "old/b1", "b2"), "unknown"),
                ((False, False, False), ("b1", "b2", "b3"), "fork"),
            )
        ),
    ],
)
def test_without_a_broker_an_old_copy_is_no_fork(
    named: tuple[bool, ...],
    names: tuple[str, ...],
    verdict: str,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """An old copy, which its broker truncated later, beside today's; meta.properties left out."""
    for name, has_properties in zip(names, named, strict=True):
        broker = Broker(tmp_path / name, 2 if name.startswith("b2") else 1)
        broker.log("events-0", plain("abx" if "old" in name or name == "b3" else "abcd"))
        if has_properties:
            broker.meta()
    (partition,) = inspect([tmp_path], spark).partitions
    assert partition.verdict == verdict, partition.says
    if named[0] and not named[2]:
        assert (verdict == "unknown") == (
            "no meta.properties file has the broker id" in partition.says
        )


def test_only_internal_topics_is_told(tmp_path: Path, spark: SparkSession) -> None:
    (one,) = brokers(tmp_path, 1)
    one.log("__consumer_offsets-0", plain("ab"))
    with pytest.raises(UsageError, match="no topic has a segment") as told:
        inspect([tmp_path], spark)
    assert "--internal" in told.value.hint
    assert inspect([tmp_path], spark, internal=True).verdict == "alone"
