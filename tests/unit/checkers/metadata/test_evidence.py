"""Which metadata logs are evidence: those of the manifest, and all of a run's or none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from highwater.checkers.run_files import RunFiles, stage
from highwater.harness.runs.history import DECISIONS_TABLE, QUORUM_TABLE
from highwater.harness.runs.store import Run
from tests.histories.controllers import DECIDED, calm
from tests.support.metadata_logs import log, nothing, write
from tests.support.run_builder import listed


def frozen(path: Path, *controllers: int | None, late: bool = False) -> Run:
    """A run with the logs of some controllers; late: they came after its manifest was written."""
    built = calm(path).write()
    if not late:
        for controller in controllers:
            write(built.path, controller, log(DECIDED))
    listed(built)
    if late:
        for controller in controllers:
            write(built.path, controller, log(DECIDED))
    return built


def staged(run: Run) -> RunFiles:
    case = RunFiles.of(run, "r0")
    stage(case, run.path)
    return case


@pytest.mark.parametrize("controllers", [(None,), (100, 101, 102)])
def test_logs_of_controllers_are_in_the_manifest(
    controllers: tuple[int | None, ...], tmp_path: Path
) -> None:
    case = staged(frozen(tmp_path / "run", *controllers))
    assert [*case.metadata_logs] == [controller or 100 for controller in controllers]
    assert case.unread == []


def test_a_log_that_was_changed_is_no_evidence_and_neither_are_the_others(tmp_path: Path) -> None:
    run = frozen(tmp_path / "run", 100, 101, 102)
    file = run.metadata_logs[101] / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-1])
    case = staged(run)
    assert case.metadata_logs == {}
    assert [unused.path for unused in case.unread] == [
        f"coordination/controller-101/__cluster_metadata-0/{0:020d}.log"
    ]


def test_logs_of_older_runs_are_left_alone(tmp_path: Path) -> None:
    case = staged(frozen(tmp_path / "run", 100, 101, late=True))
    assert case.metadata_logs == {}
    assert case.unread == []


@pytest.mark.parametrize("seen", [True, False])
def test_without_a_manifest_logs_are_evidence_if_their_ends_were_seen(
    tmp_path: Path, *, seen: bool
) -> None:
    made = calm(tmp_path / "run")
    if seen:
        made.quorum({100: 5}, 5)
    built = made.write()
    write(built.path, None, log(DECIDED))
    case = staged(built)
    assert [*case.metadata_logs] == ([100] if seen else [])
    assert [unused.path for unused in case.unread] == (
        [] if seen else ["coordination/controller/__cluster_metadata-0"]
    )


WHOLE: Final = log((*DECIDED, (1, nothing())))


@pytest.mark.parametrize(
    ("segments", "snapshot", "says"),
    [
        ({}, 0, "has no segment"),
        (
            {3: WHOLE[3:]},
            2,
            "lacks the records before 00000000000000000003.log: the newest snapshot",
        ),
        ({3: WHOLE[3:]}, 3, ""),
        ({0: WHOLE[:2], 3: WHOLE[3:]}, 0, "no segment contains offsets 2 to 2"),
        ({0: WHOLE[:3], 3: WHOLE[3:]}, 0, ""),
        (
            {0: WHOLE[:3]},
            0,
            "ends at offset 3, but the quorum's leader reported that it had reached 5",
        ),
        ({0: WHOLE[:3]}, 5, ""),
        ({0: [b"404 not found\n"]}, 0, "is not a Kafka log but text"),
    ],
)
def test_what_a_copy_lacks_is_named_and_no_log_is_evidence(
    segments: dict[int, Sequence[bytes]], snapshot: int, says: str, tmp_path: Path
) -> None:
    made = calm(tmp_path / "run")
    made.quorum({100: 5, 101: 5}, 5)
    built = made.write()
    write(built.path, 100, WHOLE)
    folder = write(built.path, 101, ())
    (folder / f"{0:020d}.log").unlink()
    for base, batches in segments.items():
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    if snapshot:
        (folder / f"{snapshot:020d}-{1:010d}.checkpoint").touch()
    case = staged(built)
    assert [*case.metadata_logs] == ([] if says else [100, 101])
    named = {unused.path: unused.why for unused in case.unread}
    assert [*named] == (["coordination/controller-101/__cluster_metadata-0"] if says else [])
    assert says in "".join(named.values())
    listed(built)
    assert [*staged(built).metadata_logs] == [100, 101]


def test_tables_of_decisions_may_be_missing(tmp_path: Path) -> None:
    run = calm(tmp_path / "with")
    run.decided("topic")
    run.quorum({100: 3}, 3)
    assert {DECISIONS_TABLE, QUORUM_TABLE} <= staged(run.write()).tables.keys()
    without = staged(calm(tmp_path / "without").write())
    assert not {DECISIONS_TABLE, QUORUM_TABLE} & without.tables.keys()
    assert without.unread == []
