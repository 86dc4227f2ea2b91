"""What a log decided: replayed from its beginning, or from a snapshot on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from highwater.checkers.kafka_files.metadata_records import MetadataRecordError
from highwater.checkers.metadata.controller_logs import ControllerLog, read_logs
from highwater.checkers.metadata.decided_state import DecidedState, Registration, replay
from highwater.checkers.run_files import RunFiles
from tests.support.logdirs import batch
from tests.support.metadata_logs import (
    change,
    feature,
    framed,
    log,
    nothing,
    partition,
    setting,
    topic,
    vote,
    voters,
    write,
)
from tests.support.run_builder import RunBuilder

BEGIN, END, ABORT = (framed(kind, 0, b"") for kind in (23, 24, 25))
OF_ALL = Registration(leader=1, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3))


def read(
    folder: Path,
    batches: Sequence[bytes],
    *,
    base: int = 0,
    snapshots: Mapping[tuple[int, int], Sequence[bytes]] = {},
) -> ControllerLog:
    run = RunBuilder(folder / "run").write()
    write(run.path, None, batches, base=base, snapshots=snapshots)
    case = RunFiles.of(run, "r0")
    case.metadata_logs = run.metadata_logs
    [of_controller] = read_logs(case)
    return of_controller


def replayed(folder: Path, *records: bytes) -> DecidedState:
    return replay(read(folder, log([(1, record) for record in records])))


def test_the_history_of_a_partition(tmp_path: Path) -> None:
    state = replayed(
        tmp_path,
        topic(),
        partition(),
        change(leader=2, isr=(2, 3)),
        change(isr=(2,)),
        nothing(),
        change(leader=2),
        change(replicas=(2, 1)),
    )
    assert state.partitions == {
        ("events", 0): [
            OF_ALL,
            Registration(leader=2, leader_epoch=1, isr=(2, 3), replicas=(1, 2, 3)),
            Registration(leader=2, leader_epoch=1, isr=(2,), replicas=(1, 2, 3)),
            Registration(leader=2, leader_epoch=2, isr=(2,), replicas=(1, 2, 3)),
            Registration(leader=2, leader_epoch=2, isr=(2,), replicas=(2, 1)),
        ]
    }
    assert not state.begun_late


def test_settings_come_and_go(tmp_path: Path) -> None:
    state = replayed(
        tmp_path,
        topic(),
        setting("a", "1"),
        setting("b", "2"),
        setting("a", None),
        setting("c", "3", kind=4, resource="1"),
        feature("metadata.version", 8),
        feature("metadata.version", 9),
    )
    assert state.settings == {"events": {"b": "2"}}
    assert state.features == {"metadata.version": 9}


def test_a_topic_that_is_removed_has_no_partitions(tmp_path: Path) -> None:
    other = bytes(16)
    state = replayed(
        tmp_path,
        topic(),
        topic("others", other),
        partition(),
        partition(topic_id=other),
        framed(9, 0, other),
    )
    assert [*state.topics.values()] == ["events"]
    assert [*state.partitions] == [("events", 0)]


def test_transactions_take_effect_at_their_end(tmp_path: Path) -> None:
    state = replayed(
        tmp_path,
        *(BEGIN, topic(), END),
        *(BEGIN, feature("a", 1), ABORT),
        *(feature("b", 2), BEGIN, feature("c", 3)),
    )
    assert [*state.topics.values()] == ["events"]
    assert state.features == {"b": 2}


def test_a_snapshot_is_what_was_before(tmp_path: Path) -> None:
    before = [topic(), partition(leader=3, epoch=7)]
    whole = log([(1, nothing())] * 4 + [(1, change(leader=2))])
    of_controller = read(tmp_path, whole[4:], base=4, snapshots={(4, 1): before})
    assert (of_controller.first, of_controller.end, of_controller.covered) == (4, 6, 4)
    state = replay(of_controller)
    assert state.begun_late
    assert [past.leader_epoch for past in state.partitions["events", 0]] == [7, 8]


def test_what_snapshot_and_log_have_is_applied_once(tmp_path: Path) -> None:
    before = [topic(), partition(leader=2, epoch=1)]
    whole = log([(1, nothing())] * 3 + [(1, change(leader=2)), (1, change(leader=3))])
    state = replay(read(tmp_path, whole[3:], base=3, snapshots={(5, 1): before}))
    assert [past.leader_epoch for past in state.partitions["events", 0]] == [1, 2]


def test_a_log_from_its_beginning_needs_the_first_snapshot_alone(tmp_path: Path) -> None:
    snapshots = {(0, 0): [feature("a", 1)], (2, 1): [feature("b", 1)]}
    of_controller = read(tmp_path, log([(1, topic())]), snapshots=snapshots)
    state = replay(of_controller)
    assert not state.begun_late
    assert state.features == {"a": 1}


def test_an_empty_log_ends_where_its_snapshot_does(tmp_path: Path) -> None:
    of_controller = read(tmp_path, [], base=9, snapshots={(9, 4): [topic()]})
    assert (of_controller.first, of_controller.end, of_controller.rank) == (None, 9, (4, 9))
    assert [*replay(of_controller).topics.values()] == ["events"]


def test_a_record_about_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MetadataRecordError, match="about a topic or partition that does not exist"):
        replayed(tmp_path, topic(), change(leader=2))


def test_a_torn_end_is_no_damage_and_a_flipped_bit_is(tmp_path: Path) -> None:
    whole = log([(1, topic()), (1, partition()), (1, nothing())])
    torn = read(tmp_path / "a", [*whole[:3], whole[3][:-3]])
    assert (torn.end, torn.damage) == (3, ())
    flipped = bytearray(whole[2])
    flipped[-1] ^= 1
    damaged = read(tmp_path / "b", [*whole[:2], bytes(flipped), whole[3]])
    assert [row["base_offset"] for row in damaged.damage] == [2]


def test_the_last_voters_count_those_of_a_snapshot_first(tmp_path: Path) -> None:
    assert replayed(tmp_path / "none", topic()).voters is None
    batches = [*log([(1, topic())]), vote(2, 100, 101, 102), vote(3, 100, 102)]
    assert replay(read(tmp_path / "log", batches)).voters == frozenset({100, 102})
    cleaned = read(
        tmp_path / "cleaned", log([(2, topic())], base=4), base=4, snapshots={(4, 1): [nothing()]}
    )
    [snapshot] = cleaned.snapshots
    snapshot.path.write_bytes(vote(0, 101, 102))
    assert replay(cleaned).voters == frozenset({101, 102})


def test_a_voters_record_that_breaks_off_is_refused(tmp_path: Path) -> None:
    cut = batch(2, [(b"\0\0\0\6", voters(100, 101)[:-9])], epoch=1, control=True)
    with pytest.raises(MetadataRecordError, match="VotersRecord ends early"):
        replay(read(tmp_path, [*log([(1, topic())]), cut]))
