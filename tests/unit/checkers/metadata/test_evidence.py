"""Which metadata logs are evidence: those of the manifest, and all of a run's or none."""

from pathlib import Path

import pytest

from highwater.checkers.run_files import RunFiles, stage
from highwater.harness.runs import manifest
from highwater.harness.runs.history import DECISIONS_TABLE, QUORUM_TABLE
from highwater.harness.runs.store import Run, RunStatus
from tests.histories.controllers import DECIDED, calm
from tests.support.metadata_logs import log, write


def frozen(path: Path, *controllers: int | None, late: bool = False) -> Run:
    """A run with the logs of some controllers; late: they came after its manifest was written."""
    built = calm(path).write()
    if not late:
        for controller in controllers:
            write(built.path, controller, log(DECIDED))
    digest = manifest.record(built, {})
    built.write_struct("status.json", RunStatus(phase="frozen", quiesced=True, manifest=digest))
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


def test_logs_of_a_run_without_a_manifest_are_evidence(tmp_path: Path) -> None:
    built = calm(tmp_path / "run").write()
    write(built.path, None, log(DECIDED))
    assert [*staged(built).metadata_logs] == [100]


def test_tables_of_decisions_may_be_missing(tmp_path: Path) -> None:
    run = calm(tmp_path / "with")
    run.decided("topic")
    run.quorum({100: 3}, 3)
    assert {DECISIONS_TABLE, QUORUM_TABLE} <= staged(run.write()).tables.keys()
    without = staged(calm(tmp_path / "without").write())
    assert not {DECISIONS_TABLE, QUORUM_TABLE} & without.tables.keys()
    assert without.unread == []
