"""Which log directories are found in what is named, whose they are, and what is refused."""

from pathlib import Path

import pytest

from highwater.checkers.inspection.log_dirs import log_dirs
from highwater.checkers.inspection.replica_files import replicas
from highwater.harness.base.errors import UsageError
from tests.support.logdirs import Broker, brokers, plain
from tests.support.spoiled import without_privileges


def found(*given: Path) -> list[tuple[int, str]]:
    return [(one.broker, one.path.name) for one in log_dirs(given)]


def bare(path: Path, name: str = "events-0") -> Path:
    """A log directory without meta.properties."""
    Broker(path, 0).log(name, plain("a"))
    return path


def test_ids_come_from_meta_properties(tmp_path: Path) -> None:
    for one in brokers(tmp_path, 2):
        one.log("events-0", plain("a"))
    properties = tmp_path / "broker-1" / "meta.properties"
    properties.write_text("version=1\nnode.id=101\ndirectory.id=abc\n")
    assert found(tmp_path) == [(101, "broker-1"), (2, "broker-2")]
    assert found(tmp_path / "broker-2", tmp_path / "broker-1") == [
        (2, "broker-2"),
        (101, "broker-1"),
    ]


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("1", "2"), [1, 2]),
        (("kafka07", "kafka12"), [7, 12]),
        (("east", "west"), [1, 2]),
        (("a1/data", "a2/data"), [1, 2]),
        (("x/data1", "y/data1"), [1, 2]),
        (("b9/logs", "west/logs"), [1, 2]),
    ],
)
def test_else_from_names_else_from_the_place(
    names: tuple[str, ...], ids: list[int], tmp_path: Path
) -> None:
    for name in names:
        bare(tmp_path / "given" / name)
    assert [broker for broker, _ in found(tmp_path / "given")] == ids


def test_a_broker_may_have_several_log_directories(tmp_path: Path) -> None:
    for index in (1, 2):
        one = Broker(tmp_path / f"disk{index}", 5).meta()
        one.log(f"events-{index}", plain("a"))
    dirs = log_dirs([tmp_path])
    assert [one.broker for one in dirs] == [5, 5]
    listed = replicas(dirs, internal=False)
    assert [(one.broker, one.partition) for one in listed] == [(5, 1), (5, 2)]


def test_single_replicas_folders_may_be_named(tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        bare(tmp_path / name)
        bare(tmp_path / name, "other-0")
    dirs = log_dirs([tmp_path / "b1" / "events-0", tmp_path / "b2" / "events-0"])
    assert [one.topic for one in replicas(dirs, internal=False)] == ["events", "events"]
    assert [one.broker for one in dirs] == [1, 2]


@pytest.mark.parametrize("beside", ["meta.properties", "replication-offset-checkpoint"])
def test_a_log_directory_without_its_folders_is_no_replica(beside: str, tmp_path: Path) -> None:
    """An archive was unpacked without the names of folders; its own name ends with a number."""
    flat, whole = (Broker(tmp_path / f"broker-{number}", number) for number in (1, 2))
    whole.meta().log("events-0", plain("a"))
    flat.path.mkdir()
    for name in (beside, f"{0:020d}.log", "leader-epoch-checkpoint"):
        (flat.path / name).touch()
    for given in ([tmp_path], [flat.path, whole.path]):
        listed = replicas(log_dirs(given), internal=False)
        assert [(each.topic, each.broker) for each in listed] == [("events", 2)]


def test_a_run_is_its_folder_replicas(tmp_path: Path) -> None:
    bare(tmp_path / "run" / "replicas" / "3")
    bare(tmp_path / "run" / "elsewhere" / "4")
    assert found(tmp_path / "run") == [(3, "3")]


def test_what_is_deleted_moved_or_internal_is_left_out(tmp_path: Path) -> None:
    one = Broker(tmp_path / "b1", 1).meta()
    for name in ("events-0", "events-1.8f-delete", "events-2.9a-future", "__consumer_offsets-3"):
        one.log(name, plain("a"))
    one.log(f"huge-{1 << 40}", plain("a"))
    (one.path / "file-1").write_text("no folder")
    dirs = log_dirs([one.path])
    assert [each.topic for each in replicas(dirs, internal=False)] == ["events"]
    assert [each.topic for each in replicas(dirs, internal=True)] == [
        "__consumer_offsets",
        "events",
    ]


def test_symbolic_links_are_followed_once(tmp_path: Path) -> None:
    bare(tmp_path / "real" / "b1")
    (tmp_path / "real" / "again").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "loop").symlink_to("loop")
    (tmp_path / "linked").symlink_to(tmp_path / "real" / "b1")
    aside = (tmp_path / "real" / "b1" / "events-0").rename(tmp_path / "real" / "aside")
    (aside / "leader-epoch-checkpoint").touch()
    (tmp_path / "real" / "b1" / "events-0").symlink_to(aside)
    assert found(tmp_path / "real") == [(1, "b1")]
    assert len(log_dirs([tmp_path / "linked", tmp_path / "real" / "b1"])) == 1


def test_a_link_to_itself_among_the_replicas_is_a_finding(tmp_path: Path) -> None:
    one = bare(tmp_path / "b1")
    (one / "events-1").symlink_to("events-1")
    listed = replicas(log_dirs([one]), internal=False)
    assert [[each.kind for each in replica.findings] for replica in listed] == [[], ["unreadable"]]


def refused(path: Path, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        log_dirs([path])


def test_what_holds_no_log_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "there is no directory")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "is not a directory")
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path / "loop", "cannot be read: Too many levels of symbolic links")
    (tmp_path / "empty" / "events-0").mkdir(parents=True)
    refused(tmp_path / "empty", "contains no Kafka log")


def named(path: Path, broker: int, cluster: str) -> Broker:
    """A broker's log directory with the id of its cluster."""
    one = Broker(path, broker)
    one.log("events-0", plain("a"))
    text = f"version=1\nnode.id={broker}\ncluster.id={cluster}\n"
    (path / "meta.properties").write_text(text)
    return one


def test_folders_of_two_clusters_are_refused_by_name(tmp_path: Path) -> None:
    named(tmp_path / "b1", 1, "one")
    named(tmp_path / "b2", 2, "one")
    assert found(tmp_path) == [(1, "b1"), (2, "b2")]
    named(tmp_path / "b3", 3, "other")
    bare(tmp_path / "b4")
    match = (
        f"2 clusters: {tmp_path}/b1 belongs to the cluster one,"
        f" {tmp_path}/b3 belongs to the .* other"
    )
    refused(tmp_path, match)


@pytest.mark.parametrize(
    "file", ["leader-epoch-checkpoint", f"{0:020d}.index", "partition.metadata"]
)
def test_a_replica_without_a_segment_is_one(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "b1" / "events-0"
    folder.mkdir(parents=True)
    (folder / file).touch()
    for given in (tmp_path, tmp_path / "b1", folder):
        (replica,) = replicas(log_dirs([given]), internal=False)
        assert (replica.topic, replica.segments) == ("events", ())
        assert [each.kind for each in replica.findings] == ["missing-segment"]


def test_a_replica_that_a_checkpoint_has_and_no_folder_is_missing(tmp_path: Path) -> None:
    one, two, three = brokers(tmp_path, 3)
    one.log("events-0", plain("a"))
    for broker in (one, two, three):
        broker.hw(events=1, elsewhere=1, __internal=1)
    (three.path / "events-0.8f-delete").mkdir()
    listed = replicas(log_dirs([tmp_path]), internal=False)
    assert [(each.broker, [kind.kind for kind in each.findings]) for each in listed] == [
        (1, []),
        (2, ["no-folder"]),
    ]


def test_a_remote_tier_may_have_what_a_log_begins_with(tmp_path: Path) -> None:
    one, _ = brokers(tmp_path, 2)
    one.log("events-0", (4, plain("a", base=4)))
    assert [each.tiered for each in replicas(log_dirs([tmp_path]), internal=False)] == [False]
    (tmp_path / "broker-2" / "remote-log-index-cache").mkdir()
    assert [each.tiered for each in replicas(log_dirs([tmp_path]), internal=False)] == [True]


def test_no_permission_is_told(tmp_path: Path) -> None:
    one = Broker(bare(tmp_path / "b1"), 1).meta().path
    (one / "events-0").chmod(0)
    one.chmod(0o500)
    try:
        with without_privileges():
            listed = replicas(log_dirs([one]), internal=False)
            assert [each.kind for each in listed[0].findings] == ["unreadable"]
            one.chmod(0)
            refused(one, "cannot be read: Permission denied")
    finally:
        one.chmod(0o700)
        (one / "events-0").chmod(0o700)


def test_a_broken_checkpoint_is_a_finding_and_no_more(tmp_path: Path) -> None:
    one = Broker(tmp_path / "b1", 1).meta()
    folder = one.log("events-0", plain("a"))
    (one.path / "replication-offset-checkpoint").write_text("0\n2\nevents 0 1\n")
    (folder / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe")
    (replica,) = replicas(log_dirs([one.path]), internal=False)
    assert [each.kind for each in replica.findings] == ["checkpoint-broken", "checkpoint-broken"]
    assert (replica.hw, replica.epochs) == (None, None)
