"""Replicas of one log that the cleaner has been at, each as far as it came: they agree, or lag.

Only a record that nothing replaced, beyond where any cleaner is known to have been, is a hole; a
tombstone may be unknown.
``HIGHWATER_COMPACTED`` is how many logs there are of each, ``HIGHWATER_SEED`` the dice's seed.
"""

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.inspection.report_types import InspectedPartition
from tests.support.logdirs import Broker, Record, batch, brokers
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT: Final = int(os.environ.get("HIGHWATER_COMPACTED") or histories(50, 150))
_CHECKPOINT: Final = "cleaner-offset-checkpoint"


@dataclass(slots=True)
class Log:
    """A log as it was written, in batches from these offsets on, and its replicas' cleaners.

    Attributes:
        dirty: by replica, the first offset that its cleaner has not come to (0: it never ran).
        told: whether the brokers have written these down (LogCleanerManager).
        ends: by replica, its LEO.
    """

    records: list[Record]
    begins: list[int]
    codec: int
    dirty: list[int]
    told: bool
    ends: list[int]

    def last(self, offset: int, end: int) -> bool:
        """Whether no record before ``end`` replaces this one."""
        key = self.records[offset][0]
        return all(other != key for other, _ in self.records[offset + 1 : end])

    def kept(self, replica: int) -> list[int]:
        """Offsets that a replica holds: cleaned are those that an offset below ``dirty`` replaces.

        A tombstone goes some time after all that it replaces (delete.retention.ms). Without the
        cleaner's own word nobody can tell this from a loss, so here it goes only with that.
        """
        dirty = self.dirty[replica]
        return [
            at
            for at in range(self.ends[replica])
            if at >= dirty
            or (self.last(at, dirty) and not (self.told and self.records[at][1] is None))
        ]

    def write(self, offsets: list[int]) -> bytes:
        """A batch holds what is left of its records, from its old base offset on."""
        data = b""
        for begin, end in zip(self.begins, [*self.begins[1:], len(self.records)], strict=True):
            mine = [at for at in offsets if begin <= at < end]
            if mine:
                deltas = [at - begin for at in mine]
                held = [self.records[at] for at in mine]
                data += batch(begin, held, codec=self.codec, deltas=deltas)
        return data


def drawn(dice: random.Random, *, told: bool) -> Log:
    """Some records of a few keys, tombstones among them; the last one is in the active segment."""
    size = dice.randint(4, 30)
    keys = [b"k%d" % key for key in range(dice.randint(1, 5))]
    records: list[Record] = [
        (dice.choice(keys), None if dice.random() < 0.15 else dice.randbytes(dice.randint(0, 9)))
        for _ in range(size)
    ]
    begins = [0, *sorted(dice.sample(range(1, size), dice.randint(0, size // 2)))]
    ends = [size, size, dice.choice((size, dice.randint(1, size)))]
    dirty = [dice.choice((0, dice.randint(0, end - 1))) for end in ends]
    codec = dice.choice((0, 0, 1, 2, 3, 4))
    return Log(records=records, begins=begins, codec=codec, dirty=dirty, told=told, ends=ends)


def leave(log: Log, name: str, sides: list[Broker], told: list[dict[str, int]], gone: int) -> None:
    """Write the replicas; broker 2 lacks the record at ``gone`` besides (-1: none)."""
    for replica, broker in enumerate(sides):
        kept = log.kept(replica)
        broker.log(name, log.write([at for at in kept if replica != 1 or at != gone]))
        if log.told and log.dirty[replica]:
            told[replica][name] = log.dirty[replica]


def unreplaced(log: Log, dice: random.Random) -> int:
    """A record inside of broker 2's log, which no cleaner may take; -1 where there is none."""
    clean = max(log.dirty) if log.told else 0
    kept = log.kept(1)
    size = len(log.records)
    inside = [at for at in kept[1:-1] if at >= clean and log.last(at, size)]
    others = [at for at in inside if at in log.kept(0)]
    return dice.choice(others) if others else -1


def judged(
    folder: Path, logs: dict[str, tuple[Log, int]], spark: SparkSession
) -> list[InspectedPartition]:
    sides = brokers(folder)
    told: list[dict[str, int]] = [{} for _ in sides]
    for name, (log, gone) in logs.items():
        leave(log, f"{name}-0", sides, told, gone)
    for broker, offsets in zip(sides, told, strict=True):
        broker.checkpoint(_CHECKPOINT, offsets)
    return list(inspect([folder], spark).partitions)


def test_compaction_is_no_hole_and_the_loss_of_a_last_record_is(
    tmp_path: Path, spark: SparkSession
) -> None:
    dice = random.Random(FIRST)  # noqa: S311 - no secret
    logs: dict[str, tuple[Log, int]] = {}
    for number in range(COUNT):
        log = drawn(dice, told=number % 2 == 0)
        logs[f"sound{number}"] = log, -1
        gone = unreplaced(log, dice)
        if gone >= 0:
            logs[f"holed{number}"] = log, gone
    found = judged(tmp_path, logs, spark)
    assert len(found) == len(logs)
    cleaned = holed = 0
    for each in found:
        log, gone = logs[each.topic]
        holes = [
            (one.broker, finding.offset)
            for one in each.replicas
            for finding in one.findings
            if finding.kind == "hole"
        ]
        says = f"seed {FIRST}, {each.topic}: {each.verdict}, {each.says} {log}, {gone}"
        if gone < 0:
            behind = len(set(log.ends)) > 1
            assert (each.verdict, holes) == ("lag" if behind else "agree", []), says
            cleaned += len({tuple(log.kept(replica)) for replica in (0, 1)}) > 1
        else:
            right = [("corrupt", [(2, gone)])]
            if log.records[gone][1] is None:  # the cleaner's own word may be older than its log
                right.append(("unknown", []))
            assert (each.verdict, holes) in right, says
            holed += 1
    assert cleaned > COUNT // 4, "hardly a replica was cleaned further than another"
    assert holed > COUNT // 4, "hardly a record could be missed"
