"""Several log directories of a broker become one folder of evidence."""

from pathlib import Path

import pytest

from highwater.clusters.brokers.freeze import copy_topics, merge_log_dirs, prune
from highwater.harness.runs.store import MORE_LOG_DIRS, REMOTE_TIER

NAME = "replication-offset-checkpoint"


def log_dir(path: Path, partition: int, topic: str = "events") -> None:
    replica = path / f"{topic}-{partition}"
    replica.mkdir(parents=True)
    (replica / f"{0:020}.log").write_bytes(b"records")
    (path / NAME).write_text(f"0\n1\n{topic} {partition} {partition + 5}\n", encoding="ascii")
    (path / "meta.properties").write_text(f"directory.id={partition}\n", encoding="ascii")


def cluster(tmp_path: Path) -> Path:
    """A broker with three log directories, one replica in each."""
    replicas = tmp_path / "replicas"
    log_dir(replicas / "1", 0)
    log_dir(tmp_path / MORE_LOG_DIRS / "1" / "2", 1)
    log_dir(tmp_path / MORE_LOG_DIRS / "1" / "3", 2)
    return replicas


def require_all(replicas: Path) -> None:
    names = {path.relative_to(replicas / "1").as_posix() for path in replicas.glob("1/*/*")}
    assert names == {f"events-{number}/{0:020}.log" for number in range(3)}
    text = (replicas / "1" / NAME).read_text(encoding="ascii")
    assert text == "0\n3\nevents 0 5\nevents 1 6\nevents 2 7\n"
    assert (replicas / "1" / "meta.properties").read_text(encoding="ascii") == "directory.id=0\n"


@pytest.mark.parametrize("empty", ["replicas/1", f"{MORE_LOG_DIRS}/1/2"])
def test_an_empty_checkpoint_adds_nothing(tmp_path: Path, empty: str) -> None:
    replicas = cluster(tmp_path)
    (tmp_path / empty / NAME).write_bytes(b"")
    merge_log_dirs(replicas)
    lines = (replicas / "1" / NAME).read_text(encoding="ascii").splitlines()
    assert len(lines) == 4
    assert lines[:2] == ["0", "2"]
    assert lines[-1] == "events 2 7"


def test_they_are_merged_when_the_cluster_ends(tmp_path: Path) -> None:
    replicas = cluster(tmp_path)
    merge_log_dirs(replicas)
    require_all(replicas)
    assert not (tmp_path / MORE_LOG_DIRS).exists()


def test_a_copy_of_a_topic_has_the_replicas_of_all(tmp_path: Path) -> None:
    replicas = cluster(tmp_path)
    log_dir(tmp_path / MORE_LOG_DIRS / "1" / "4", 0, topic="other")
    (tmp_path / MORE_LOG_DIRS / "1" / "4" / NAME).unlink()
    copy_topics(replicas, ["events"], tmp_path / "run" / "replicas")
    require_all(tmp_path / "run" / "replicas")
    assert (tmp_path / MORE_LOG_DIRS / "1" / "2").is_dir()


def remote_tier(tmp_path: Path, *topics: str) -> Path:
    for topic in topics:
        folder = tmp_path / REMOTE_TIER / f"{topic}-0-{'t' * 22}"
        folder.mkdir(parents=True)
        for kind in ("log", "index", "timeindex", "leader_epoch_checkpoint"):
            (folder / f"{0:020}-{'s' * 22}.{kind}").write_bytes(b"bytes")
    return tmp_path / REMOTE_TIER


def files(tier: Path) -> set[str]:
    return {path.relative_to(tier).as_posix() for path in tier.glob("*/*")}


def test_a_copy_of_a_topic_has_its_remote_tier(tmp_path: Path) -> None:
    replicas = cluster(tmp_path)
    remote_tier(tmp_path, "events", "events-1", "other")
    copy_topics(replicas, ["events"], tmp_path / "run" / "replicas")
    kept = f"events-0-{'t' * 22}/{0:020}-{'s' * 22}"
    kinds = ("log", "leader_epoch_checkpoint")
    assert files(tmp_path / "run" / REMOTE_TIER) == {f"{kept}.{kind}" for kind in kinds}


def test_a_frozen_remote_tier_has_no_index(tmp_path: Path) -> None:
    replicas = cluster(tmp_path)
    tier = remote_tier(tmp_path, "events")
    prune(replicas, tmp_path / "coordination")
    assert {name.rpartition(".")[2] for name in files(tier)} == {"log", "leader_epoch_checkpoint"}


def test_a_checkpoint_of_which_a_fault_left_a_part_or_other_bytes_is_merged(tmp_path: Path) -> None:
    for left in (b"0\n", b"0", b"\xff\xfe", b"0\n1\n\xffvents 0 5\n"):
        replicas = cluster(tmp_path / left.hex())
        (replicas / "1" / NAME).write_bytes(left)
        merge_log_dirs(replicas)
        lines = (replicas / "1" / NAME).read_bytes().split(b"\n")
        assert lines[-3:] == [b"events 1 6", b"events 2 7", b""]
