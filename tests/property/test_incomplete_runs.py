"""Runs without a list of their files, from whose disks files were left out: none is accused.

All of them are sound, so every anomaly is an accusation. ``HIGHWATER_COPIES`` is the number of
runs, ``HIGHWATER_SEED`` the seed of the dice.
"""

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.checkers.kafka_files.checkpoints import LEADER_EPOCH, LOG_START, RECOVERY_POINT
from highwater.harness.runs.history import QUORUM_TABLE
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.store import Run
from tests.histories.remote_tier import run_with
from tests.support import run_builder
from tests.support.metadata_logs import log, nothing, partition, setting, topic, write
from tests.support.run_builder import RunBuilder

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT: Final = int(os.environ.get("HIGHWATER_COPIES", "24"))
SEED: Final = int(os.environ.get("HIGHWATER_SEED", "0"))
PASS: Final = 200
"""Runs that are judged at once."""

BROKERS: Final = (1, 2, 3)
DECIDED: Final = (
    *((1, topic()), (1, partition()), (1, setting("retention.ms", "7"))),
    *((1, nothing()) for _ in range(3)),
)
SNAPSHOT: Final = 3
"""The offset of a snapshot that has the topic and its partition."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """A run, and what was left out of it.

    Attributes:
        left_out: files and folders, from the run's folder.
        shown: whether what is left shows that records or decisions are missing.
    """

    run: Run
    left_out: list[str] = field(default_factory=list)
    shown: bool = False


def sound(path: Path, dice: random.Random) -> Run:
    """A run that lost nothing, on three brokers and one controller or three."""
    compacted = dice.random() < 0.2
    config = {"cleanup.policy": "compact" if compacted else "delete"}
    made = RunBuilder(path, kafka="4.3.1", topic=Topic(config=config))
    made.leader(1, 0, BROKERS)
    made.decided("topic")
    made.decided("setting", "7", setting="retention.ms")
    end = dice.randint(3, 8)
    names = [f"m{offset}" for offset in range(end)]
    made.everywhere([(offset, 0, name) for offset, name in enumerate(names)])
    made.fence(end)
    for broker in BROKERS:
        made.observe(broker, dice.randint(0, end))
        made.observe(broker, end + 1)
    controllers: tuple[int | None, ...] = (None,) if dice.random() < 0.5 else (100, 101, 102)
    decided = len(DECIDED) + 1
    made.quorum({controller or 100: decided for controller in controllers}, decided)
    run = made.write()
    for broker in BROKERS:
        replica(dice, run, broker, [*names, "fence-0"])
        made.checkpoint(broker, {0: dice.randint(0, end + 1)})
    for controller in controllers:
        metadata_log(dice, run, controller)
    return run


def replica(dice: random.Random, run: Run, broker: int, names: list[str]) -> None:
    """A replica in several segments, with the files that Kafka keeps beside them."""
    folder = run.replicas / str(broker) / "events-0"
    bases = [0, *sorted(dice.sample(range(1, len(names)), dice.randint(0, min(2, len(names) - 1))))]
    for base, following in zip(bases, [*bases[1:], len(names)], strict=True):
        batches = [run_builder.batch(at, 0, [names[at]]) for at in range(base, following)]
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
        if base:
            (folder / f"{base:020d}.snapshot").write_bytes(b"\0\1")
    (folder / LEADER_EPOCH).write_text("0\n1\n0 0\n")
    flushed = bases[-1]
    (folder.parent / RECOVERY_POINT).write_text(f"0\n1\nevents 0 {flushed}\n")
    (folder.parent / LOG_START).write_text("0\n0\n")


def metadata_log(dice: random.Random, run: Run, controller: int | None) -> None:
    """A controller's log in several segments, at times with a snapshot before the last ones."""
    whole = log(DECIDED)
    snapshots = {(SNAPSHOT, 1): [topic(), partition(version=0)]} if dice.random() < 0.4 else {}
    folder = write(run.path, controller, (), snapshots=snapshots)
    bases = [0, *sorted(dice.sample(range(1, len(whole)), dice.randint(0, 2)))]
    for base, following in zip(bases, [*bases[1:], len(whole)], strict=True):
        (folder / f"{base:020d}.log").write_bytes(b"".join(whole[base:following]))


def spoil(dice: random.Random, copy: Copy) -> None:
    """Leave out files of the disks, by chance or by a rule, or the end of one."""
    run = copy.run
    coordination = run.path / "coordination"
    both = (run.replicas, coordination)
    files = sorted(path for root in both for path in root.rglob("*") if path.is_file())
    logs = [path for path in files if path.suffix == ".log"]
    on_disks = [path for path in logs if run.replicas in path.parents]
    match dice.choice(("none", "few", "many", "log", "end", "suffix", "controller", "metadata")):
        case "few":
            gone = dice.sample(files, dice.randint(1, 3))
        case "many":
            gone = [path for path in files if dice.random() < 0.5]
        case "log":
            chosen = dice.choice(logs)
            beside = [path for path in files if path.stem == chosen.stem]
            gone = [path for path in beside if path.parent == chosen.parent]
        case "end":
            chosen = dice.choice(logs)
            os.truncate(chosen, dice.randint(1, chosen.stat().st_size - 1))
            copy.left_out.append(f"the end of {chosen.relative_to(run.path)}")
            copy.shown |= needed(chosen, [chosen], compacted=compacted(run))
            return
        case "suffix":
            end = dice.choice((".log", ".snapshot", "checkpoint"))
            gone = [path for path in files if path.name.endswith(end) and dice.random() < 0.7]
        case "controller":
            folders = sorted(coordination.glob("*/*/"))
            gone = [*dice.sample(folders, dice.randint(1, len(folders)))]
        case "metadata":
            gone = [path for path in logs if path not in on_disks and dice.random() < 0.5]
        case _:
            gone = []
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    copy.left_out += [str(path.relative_to(run.path)) for path in gone]
    copy.shown |= any(needed(path, gone, compacted=compacted(run)) for path in gone)


def leave_out_quorum(copy: Copy) -> None:
    """Without it nothing tells how far the metadata logs went, if any is there."""
    (copy.run.path / f"{QUORUM_TABLE}.parquet").unlink()
    copy.left_out.append(QUORUM_TABLE)
    copy.shown |= any((copy.run.path / "coordination").glob("*/*/"))


def compacted(run: Run) -> bool:
    return run.plan().topic.config["cleanup.policy"] == "compact"


def needed(path: Path, gone: list[Path], *, compacted: bool) -> bool:
    """Whether a run shows that something is missing, if this or its end is.

    A snapshot has what the first segments of a metadata log had, where a log begins is known from
    its leader epochs alone, and compaction, too, leaves offsets in no segment.
    """
    if path.is_dir():
        return True
    if path.suffix != ".log":
        return False
    base = int(path.stem)
    rest = [int(other.stem) for other in path.parent.glob("*.log")]
    first = not any(other < base for other in rest)
    if "coordination" in path.parts:
        snapshots = [int(each.name[:20]) for each in path.parent.glob("*.checkpoint")]
        return not (first and rest and min(rest) <= max(snapshots, default=0))
    if compacted and any(other > base for other in rest):
        return first and not path.exists() and path.parent / LEADER_EPOCH not in gone
    return not (first and rest and path.parent / LEADER_EPOCH in gone)


def wrongs(folder: Path, count: int, dice: random.Random, spark: SparkSession) -> Counter[str]:
    """Judge so many copies; how many have each verdict, and none is accused."""
    copies = [Copy(run=sound(folder / f"run-{number}", dice)) for number in range(count)]
    for copy in copies:
        spoil(dice, copy)
        if dice.random() < 0.2:
            leave_out_quorum(copy)
    said: Counter[str] = Counter()
    wrong = []
    for copy, verdict in zip(copies, judge([copy.run for copy in copies], spark), strict=True):
        right = {"unknown"} if copy.shown else {"valid", "unknown"} if copy.left_out else {"valid"}
        if verdict.anomalies or verdict.verdict not in right:
            found = [f"{each.kind}: {each.sentence}" for each in verdict.anomalies]
            wrong.append(
                f"{copy.run.path.name} without {copy.left_out}: {verdict.verdict}, not {right};"
                f" {found} {verdict.reasons}"
            )
        said[verdict.verdict] += 1
    assert not wrong, f"seed {SEED}, {len(wrong)} of {count}:\n\n" + "\n\n".join(wrong[:5])
    return said


@pytest.mark.parametrize("count", [COUNT, pytest.param(2000, marks=pytest.mark.nightly)])
def test_a_run_is_accused_of_nothing_that_was_left_out(
    count: int, tmp_path: Path, spark: SparkSession
) -> None:
    dice = random.Random(SEED)  # noqa: S311 - no secret
    said: Counter[str] = Counter()
    for begin in range(0, count, PASS):
        folder = tmp_path / str(begin)
        said += wrongs(folder, min(PASS, count - begin), dice, spark)
        shutil.rmtree(folder)
    assert said["unknown"] > count // 3, "hardly a run shows that it is incomplete"
    assert said["valid"], "no sound run is valid"


def test_a_log_that_was_truncated_for_good_is_a_loss(tmp_path: Path, spark: SparkSession) -> None:
    """Its broker went on: its checkpoints and its last answer say what the log says."""
    made = RunBuilder(tmp_path / "run", kafka="4.3.1")
    made.leader(1, 0, BROKERS)
    made.everywhere([(offset, 0, f"m{offset}") for offset in range(4)])
    made.fence(4)
    whole = [*(f"m{offset}" for offset in range(4)), "fence-0"]
    for broker in BROKERS:
        made.observe(broker, 5)
    made.observe(3, 2)
    run = made.write()
    for broker in BROKERS:
        names = whole[:2] if broker == 3 else whole
        replica(random.Random(SEED), run, broker, names)  # noqa: S311 - no secret
        made.checkpoint(broker, {0: len(names)})
    (verdict,) = judge([run], spark)
    assert (verdict.verdict, [each.kind for each in verdict.anomalies]) == ("invalid", ["missing"])


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 7)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def foreign(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


def tier_left_out(path: Path) -> None:
    """Without the remote tier, and with disks that begin where local retention left them."""
    shutil.rmtree(path.parents[1])
    for log_file in (path.parents[2] / "replicas").glob("*/*/*.log"):
        log_file.rename(log_file.with_name(f"{2:020d}.log"))


def test_a_remote_tier_that_was_not_copied_whole_accuses_nobody(
    tmp_path: Path, spark: SparkSession
) -> None:
    records = [(number, 0, f"m{number}") for number in range(4)]
    runs = []
    for number, spoil_it in enumerate((cut, foreign, empty)):
        runs.append(run_with(tmp_path / f"run-{number}", records[:2], records[2:3]))
        spoil_it(next(runs[-1].remote_tier.glob("*/*.log")))
    for verdict in judge(runs, spark):
        assert (verdict.verdict, verdict.anomalies) == ("unknown", ())
        assert any("-tier" in reason for reason in verdict.reasons), verdict.reasons


def test_a_remote_tier_that_is_not_there_is_missing(tmp_path: Path, spark: SparkSession) -> None:
    records = [(number, 0, f"m{number}") for number in range(4)]
    run = run_with(tmp_path / "run", records[:2], local_from=2)
    tier_left_out(next(run.remote_tier.glob("*/*.log")))
    (verdict,) = judge([run], spark)
    assert (verdict.verdict, verdict.anomalies) == ("unknown", ())
    assert any("is missing: the oldest records" in reason for reason in verdict.reasons)
