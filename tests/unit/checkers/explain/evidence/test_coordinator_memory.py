"""A coordinator's contradiction is explained on releases with a hazard that its log shows."""

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa  # noqa: TC002
import pytest

from highwater.checkers.coordinators.contradictions import coordinator_contradiction
from highwater.checkers.explain.evidence.coordinator_memory import contradiction
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.run_files import RunFiles, stage
from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import Run
from tests.histories.journals import GROUP, SHARE_GROUP, contradicted, coordinated


@pytest.mark.parametrize(
    ("kafka", "group_goes", "aborted", "rule"),
    [
        ("4.0.0", True, False, "KAFKA-19163"),
        ("4.0.1", True, False, ""),
        ("4.0.0", False, False, ""),
        ("4.0.0", False, True, ""),
        ("3.9.0", False, True, "KAFKA-17507"),
        ("3.9.2", False, True, ""),
        ("3.9.0", False, False, ""),
    ],
)
def test_a_lacking_offset_is_explained_by_its_release_and_by_the_log(
    tmp_path: Path, kafka: str, rule: str, *, group_goes: bool, aborted: bool
) -> None:
    run = contradicted(
        tmp_path / "run", answer=None, group_goes=group_goes, aborted=aborted, kafka=kafka
    )
    row = only(tmp_path, run)
    assert row["copies"][0]["note"] == (
        "The coordinator of group events-group returned no offset for partition 0, but"
        " __consumer_offsets has offset 1."
    )
    assert rules(run, row) == ({rule} if rule else set())


@pytest.mark.parametrize(
    ("kafka", "logged", "rule"),
    [
        ("3.9.2", True, "unloaded-coordinator"),
        ("3.9.2", False, ""),
        ("4.4.0", True, ""),
    ],
)
def test_a_coordinator_that_could_not_load_its_log_knows_no_offset(
    tmp_path: Path, kafka: str, rule: str, *, logged: bool
) -> None:
    run = contradicted(tmp_path / "run", answer=None, unloaded=logged, kafka=kafka)
    assert rules(run, only(tmp_path, run)) == ({rule} if rule else set())


DOWNGRADE = ((3, True), (5, True), (5, False), (3, False), (2, True), (5, True))
"""Key versions of a group's records, and whether they have a value."""


@pytest.mark.parametrize(
    ("kafka", "codec", "records", "rule"),
    [
        ("4.3.1", "1", DOWNGRADE, "KAFKA-20845"),
        ("4.4.0", "1", DOWNGRADE, ""),
        ("4.3.1", "0", DOWNGRADE, ""),
        ("4.3.1", "1", DOWNGRADE[-2:], ""),
        ("4.3.1", "1", (DOWNGRADE[3], (5, False), *DOWNGRADE[-2:]), ""),
    ],
)
def test_a_member_in_a_classic_group_is_explained_by_a_downgrade_before_it(
    tmp_path: Path, kafka: str, codec: str, records: tuple[tuple[int, bool], ...], rule: str
) -> None:
    key = struct.pack(">h", len(GROUP)) + GROUP.encode()
    log = [
        (struct.pack(">h", version) + key, b"v" if there else None) for version, there in records
    ]
    workload = Workload(subscribe=1)
    topic = "__consumer_offsets"
    run = coordinated(tmp_path / "run", topic, log, kafka=kafka, workload=workload, codec=codec)
    assert rules(run, only(tmp_path, run)) == ({rule} if rule else set())


SNAPSHOT, UPDATE = 0, 1


def share_state(
    version: int, start: int, leader_epoch: int = 0, *, state_epoch: int = 0
) -> tuple[bytes, bytes]:
    """A snapshot, or an update, of a share group's partition."""
    group = struct.pack(">h", len(SHARE_GROUP)) + SHARE_GROUP.encode()
    key = struct.pack(">h", version) + group + bytes(16) + struct.pack(">i", 0)
    if version == SNAPSHOT:
        epochs = (0, state_epoch, leader_epoch)
        return key, struct.pack(">hiiiqqq", 0, *epochs, start, 1, 1) + b"\1\0"
    return key, struct.pack(">hiiq", 0, 0, leader_epoch, start) + b"\1\0"


@pytest.mark.parametrize("late", [SNAPSHOT, UPDATE])
@pytest.mark.parametrize(
    ("kafka", "starts", "rule"),
    [
        ("4.3.1", (0, 3, 1), "share-step-back"),
        ("4.4.0", (0, 3, 1), ""),
        ("4.3.1", (-1, 3, 1), "share-step-back"),
        ("4.3.1", (2, 3, 1), ""),
    ],
)
def test_a_share_group_that_steps_back_is_explained_by_a_late_write(
    tmp_path: Path, kafka: str, starts: tuple[int, int, int], rule: str, late: int
) -> None:
    first, then, back = starts
    log = [share_state(SNAPSHOT, first), share_state(UPDATE, then), share_state(late, back)]
    run = shared_log(tmp_path, kafka, log)
    assert rules(run, only(tmp_path, run)) == ({rule} if rule else set())


@pytest.mark.parametrize("accepted", [0, 3])
@pytest.mark.parametrize("kafka", ["4.1.2", "4.4.0"])
def test_a_share_group_that_is_initialized_again(tmp_path: Path, kafka: str, accepted: int) -> None:
    """The record below the removed start offset is explained; another acceptance is not."""
    log = [share_state(SNAPSHOT, -1), share_state(UPDATE, 3), share_state(SNAPSHOT, -1)]
    run = shared_log(tmp_path, kafka, log, accepted=accepted)
    rows = found(tmp_path, run)
    explained = [{"late-initialize"}, {"late-initialize"} if accepted < 3 else set()]
    assert [rules(run, row) for row in rows] == explained


def test_a_step_back_after_a_lost_start_offset_follows_from_it(tmp_path: Path) -> None:
    log = [share_state(SNAPSHOT, -1), share_state(UPDATE, 1), share_state(SNAPSHOT, -1)]
    log += [share_state(UPDATE, 2), share_state(UPDATE, 0)]
    run = shared_log(tmp_path, "4.4.0", log)
    back = [row for row in found(tmp_path, run) if "start offset 0 follows 2" in str(row)]
    assert back
    assert all(rules(run, row) == {"late-initialize"} for row in back)


def test_a_new_state_epoch_removes_no_start_offset(tmp_path: Path) -> None:
    """So a later step back does not follow from a late initialization."""
    log = [share_state(SNAPSHOT, -1), share_state(UPDATE, 3)]
    log += [
        share_state(SNAPSHOT, -1, state_epoch=1),
        share_state(UPDATE, 2),
        share_state(UPDATE, 0),
    ]
    run = shared_log(tmp_path, "4.4.0", log)
    back = [row for row in found(tmp_path, run) if "start offset 0 follows 2" in str(row)]
    assert back
    assert not any(rules(run, row) for row in back)


def test_an_update_without_a_start_offset_keeps_it(tmp_path: Path) -> None:
    log = [share_state(SNAPSHOT, -1), share_state(UPDATE, 3), share_state(UPDATE, -1)]
    assert found(tmp_path, shared_log(tmp_path, "4.4.0", log)) == []


def test_a_leader_epoch_that_steps_back_is_not_explained(tmp_path: Path) -> None:
    run = shared_log(tmp_path, "4.3.1", [share_state(SNAPSHOT, 1, 1), share_state(UPDATE, 1, 0)])
    assert not rules(run, only(tmp_path, run))


@pytest.mark.parametrize(("offset", "rule"), [(1, "share-step-back"), (3, "")])
def test_an_acceptance_is_gone_after_a_step_back(tmp_path: Path, offset: int, rule: str) -> None:
    log = [share_state(SNAPSHOT, 0), share_state(UPDATE, 3), share_state(UPDATE, 1)]
    run = shared_log(tmp_path, "4.3.1", log, accepted=offset)
    rows = [row for row in found(tmp_path, run) if row["offset"] == offset]
    assert [rules(run, row) for row in rows] == [{rule} if rule else set()]


def shared_log(path: Path, kafka: str, log: list[tuple[bytes, bytes]], *, accepted: int = 0) -> Run:
    """A run with this log of a share coordinator; a member has accepted one record."""
    return coordinated(
        path / "run",
        "__share_group_state",
        log,
        kafka=kafka,
        workload=Workload(share=1, consumers=0),
        accepted=accepted,
    )


def found(path: Path, run: Run) -> list[dict[str, Any]]:
    """What the checker finds in a run."""
    case = RunFiles.of(run, "run")
    (path / "staged").mkdir()
    stage(case, path / "staged")
    table = coordinator_contradiction.find(cast("Any", SimpleNamespace(cases=(case,))))
    rows: list[dict[str, Any]] = cast("pa.Table", table).to_pylist()
    return rows


def only(path: Path, run: Run) -> dict[str, Any]:
    """The only finding."""
    [row] = found(path, run)
    return row


def rules(run: Run, row: dict[str, Any]) -> set[str]:
    """The rules that explain a finding; none if it is not explained."""
    chain = contradiction(observe(run), row)
    return set() if chain.why_not else {link.rule for link in chain.links}
