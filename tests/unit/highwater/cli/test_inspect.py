"""The command ``highwater inspect``: what it prints, how it exits, and what it refuses."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from highwater.checkers.inspection.replica_files import CLEANED
from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCH,
    LOG_START,
    RECOVERY_POINT,
)
from highwater.checkers.kafka_files.segment_files import FILE_BYTES_MAX
from highwater.cli.app import app
from highwater.harness.base.errors import UsageError
from tests.support.logdirs import Broker, brokers, plain

pytestmark = pytest.mark.spark


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, words)])


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """The command takes the session that is there."""
    return spark


def test_a_fork_is_told_and_is_1(tmp_path: Path) -> None:
    one, two = brokers(tmp_path / "disks", 2)
    one.log("events-0", plain("abx"))
    two.log("events-0", plain("aby"))
    one.hw(events=3)
    two.hw(events=3)
    page = tmp_path / "page.html"
    done = run(one.path, two.path, "--html", page)
    assert done.exit_code == 1, done.output
    assert "FORK events-0: Replicas have different records at offset 2." in done.output
    assert "offset 2: broker 1: x (epoch 0); broker 2: y (epoch 0)" in done.output
    assert "events-0" in page.read_text()
    told = json.loads(run(tmp_path / "disks", "--json").stdout)
    (partition,) = told["partitions"]
    assert partition["verdict"] == told["verdict"] == "fork"
    assert partition["divergent_offsets"] == [2]
    assert [(each["broker"], each["leo"], each["hw"]) for each in partition["replicas"]] == [
        (1, 3, 3),
        (2, 3, 3),
    ]


def test_one_replica_is_sound_and_agrees_with_none(tmp_path: Path) -> None:
    (one,) = brokers(tmp_path, 1)
    one.log("events-0", plain("ab"))
    for number in range(3):
        one.log(f"__consumer_offsets-{number}", plain("ab"))
    one.log("events-1.8f0c-future", plain("ab"))
    page = tmp_path / "page.html"
    done = run(one.path, "--html", page)
    assert done.exit_code == 0, done.output
    says = " ".join(done.output.split())
    assert "3 partitions of __consumer_offsets. Write --internal to compare them." in says
    assert "were not compared: " in says
    assert "agree" not in says
    assert "alone" in says
    assert "One replica of 1 partition was given, and is valid: nothing was compared." in (
        page.read_text()
    )
    told = json.loads(run(one.path, "--internal", "--json").stdout)
    assert told["verdict"] == "alone"
    assert len(told["partitions"]) == 4


def test_folders_of_two_clusters_are_wrong_usage(tmp_path: Path) -> None:
    for broker in brokers(tmp_path, 2):
        broker.log("events-0", plain("ab"))
        with (broker.path / "meta.properties").open("a") as file:
            file.write(f"cluster.id=of-{broker.broker}\n")
    done = run(tmp_path)
    assert isinstance(done.exception, UsageError)
    assert "belongs to the cluster of-1" in done.exception.message


def test_an_old_copy_beside_todays_is_told_once(tmp_path: Path) -> None:
    """All partitions of broker 1 lie in two folders; those of the others are compared."""
    old, *sides = (
        Broker(tmp_path / name, number).meta()
        for name, number in (("old", 1), ("new", 1), ("b2", 2), ("b3", 3))
    )
    names = [f"events-{number}" for number in range(4)]
    for name in names:
        old.log(name, plain("abx"))
        for broker in sides:
            broker.log(name, plain("abcd"))
    old.checkpoint(HIGH_WATERMARK, dict.fromkeys(names, 3))
    for broker in sides:
        broker.checkpoint(HIGH_WATERMARK, dict.fromkeys(names, 4))
    sides[2].log("events-3", plain("abcy"))
    done = run(tmp_path)
    says = " ".join(done.output.split())
    assert done.exit_code == 1, done.output  # brokers 2 and 3 do differ
    both = f"{sides[0].path} and {old.path} both claim to be broker 1, and have events-0,"
    assert says.count(both) == says.count("broker 1, and have") == 1
    assert f"{sides[0].path} is newer: its HW of events-0 is 4, and 3 in {old.path}." in says
    assert "UNKNOWN" not in says  # nothing more to say of those
    told = json.loads(run(tmp_path, "--json").stdout)
    assert [each["verdict"] for each in told["partitions"]] == [*["unknown"] * 3, "fork"]
    assert told["partitions"][3]["divergent_offsets"] == [3]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (("a", "a"), "not compared. They are copies of one log directory: directory.id is equal. "),
        (("a", "b"), "not compared. Their directory.id differs, so they are different log "),
        pytest.param(
            ("a", "b", "a"),
            "not compared. Some of them are copies of one log directory: ",
            marks=pytest.mark.nightly,
        ),
        (("a", None), "not compared. No file in the directories shows which directory is newer."),
    ],
)
def test_log_directories_of_a_broker_are_told_from_copies_of_one(
    ids: tuple[str | None, ...], says: str, tmp_path: Path
) -> None:
    for number, directory in enumerate(ids):
        side = Broker(tmp_path / f"dir-{number}", 1).meta()
        folder = side.log("events-0", plain("abcd"))
        side.log(f"events-{number + 1}", plain("abcd"))  # in one of them alone: no clash
        os.utime(folder / f"{0:020d}.log", (1, 1))
        if directory is not None:
            with (side.path / "meta.properties").open("a") as file:
                file.write(f"directory.id={directory}\n")
    told = json.loads(run(tmp_path, "--json").stdout)
    assert says in " ".join(told["notes"])
    assert [each["verdict"] for each in told["partitions"]] == ["unknown", *["alone"] * len(ids)]


def test_a_deleted_topics_replica_is_a_stray(tmp_path: Path) -> None:
    for broker in brokers(tmp_path, 3):
        stray = broker.broker == 3
        folder = broker.log("events-0", plain("xy" if stray else "abcd"))
        text = f"version: 0\ntopic_id: {'old' if stray else 'new'}\n"
        (folder / "partition.metadata").write_text(text)
    done = run(tmp_path, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["verdict"]) == (0, "agree")
    of_new, of_old = told["partitions"]
    assert [each["broker"] for each in of_new["replicas"]] == [1, 2]
    assert (of_new["verdict"], of_new["stray"], of_new["topic_id"]) == ("agree", False, "new")
    assert (of_old["verdict"], of_old["stray"], of_old["topic_id"]) == ("alone", True, "old")
    (note,) = told["notes"]
    assert "2 topics have the name events" in note
    assert "old (broker 3: a stray)" in note


def test_a_folder_without_a_log_is_wrong_usage(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert isinstance(done.exception, UsageError)
    assert UsageError.exit_code == 2


def test_a_huge_sparse_file_takes_no_time(tmp_path: Path) -> None:
    one, two = brokers(tmp_path, 2)
    log = plain("ab")
    for broker in (one, two):
        broker.log("preallocated-0", log)
        broker.log("huge-0", log)
    os.truncate(one.path / "preallocated-0" / f"{0:020d}.log", 1 << 30)
    os.truncate(one.path / "huge-0" / f"{0:020d}.log", FILE_BYTES_MAX + (1 << 40))
    told = json.loads(run(tmp_path, "--json").stdout)
    huge, preallocated = told["partitions"]
    assert preallocated["verdict"] == "agree"
    assert [each["kind"] for each in preallocated["replicas"][0]["findings"]] == ["zeros"]
    assert huge["verdict"] == "corrupt"
    assert "but a segment has at most" in huge["says"]


def test_two_logs_of_zeros_agree_on_nothing(tmp_path: Path) -> None:
    """However long they are, and whether the file system knows of the hole or not."""
    for broker in brokers(tmp_path, 2):
        broker.log("sparse-0", b"")
        os.truncate(broker.path / "sparse-0" / f"{0:020d}.log", 400 << 20)
        broker.log("written-0", bytes(4 << 20))
    done = run(tmp_path, "--json")
    assert done.exit_code == 3
    assert [each["verdict"] for each in json.loads(done.stdout)["partitions"]] == ["unknown"] * 2


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)  # its own path may be too long
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "device": make_device,
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "socket": make_socket,
}


@pytest.mark.timeout(120)
def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    one, two = brokers(tmp_path, 2)
    name = f"{0:020d}.log"
    for kind, make in SPECIAL.items():
        one.log(f"{kind}-0", plain("ab"))
        two.log(f"{kind}-0", b"").joinpath(name).unlink()
        make(two.path / f"{kind}-0" / name)
    done = run(tmp_path, "--json")
    assert done.exit_code == 3
    assert {
        each["topic"]: (each["verdict"], each["says"])
        for each in json.loads(done.stdout)["partitions"]
    } == {
        kind: ("unknown", f"Broker 2: {name}, byte 0: cannot be read: it is a {kind}, not a file.")
        for kind in SPECIAL
    }


@pytest.mark.timeout(120)
def test_nothing_beside_a_log_keeps_it_waiting(tmp_path: Path) -> None:
    """Each file that is looked for beside the segments is a FIFO that nobody writes to."""
    for broker in brokers(tmp_path, 2):
        log = broker.log("events-0", plain("ab"))
        (broker.path / "meta.properties").unlink()
        beside = (HIGH_WATERMARK, RECOVERY_POINT, LOG_START, CLEANED, "meta.properties")
        for path in (*(broker.path / name for name in beside), log / "partition.metadata"):
            os.mkfifo(path)
        os.mkfifo(log / LEADER_EPOCH)
    (partition,) = json.loads(run(tmp_path, "--json").stdout)["partitions"]
    findings = partition["replicas"][0]["findings"]
    assert {each["kind"] for each in findings} == {"checkpoint-broken"}
    assert len(findings) == 5
    assert "it is a FIFO, not a file. The inspection ignores this file." in findings[0]["says"]


def test_a_link_to_a_segment_is_a_segment(tmp_path: Path) -> None:
    one, two = brokers(tmp_path / "disks", 2)
    one.log("events-0", plain("ab"))
    (tmp_path / "elsewhere").write_bytes(plain("ab"))
    two.log("events-0", b"").joinpath(f"{0:020d}.log").unlink()
    (two.path / "events-0" / f"{0:020d}.log").symlink_to(tmp_path / "elsewhere")
    done = run(tmp_path / "disks")
    assert done.exit_code == 0, done.output
    assert "agree" in done.output
