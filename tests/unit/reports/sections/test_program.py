"""The section about a program counts its inputs, and whom the findings accuse."""

from pathlib import Path

import msgspec

from highwater.harness.runs.history import INSTANCES_TABLE
from highwater.harness.runs.plan import ProgramPlan
from highwater.harness.runs.verdict import Anomaly, Verdict, Witness
from highwater.reports.pages.run import page
from highwater.reports.sections.program import program_section
from tests.support.judged import verdict
from tests.support.run_builder import RunBuilder

SAYS = "The program did it: position committed before the output was acknowledged. Flush."
LOST = Anomaly(
    kind="lost-input",
    topic="events",
    partition=0,
    offset=1,
    value="p0-1",
    sentence="It is lost.",
    breaks=True,
    witnesses=(Witness(who="judge", what="mistake", says=SAYS, source="judge"),),
)


def judged(**fields: object) -> Verdict:
    counts = {"lost-input": 1}
    return msgspec.structs.replace(verdict("invalid"), counts=counts, anomalies=(LOST,), **fields)


def built(path: Path) -> RunBuilder:
    run = RunBuilder(path, kafka="4.4.0")
    program = ProgramPlan(command=("python", "<service>.py"))
    run.plan = msgspec.structs.replace(run.plan, program=program)
    lives = [("started", 1), ("killed", 1), ("started", 2)]
    run.rows[INSTANCES_TABLE] = [
        {"time_ns": at, "instance": 0, "life": life, "event": event, "status": None}
        for at, (event, life) in enumerate(lives)
    ]
    return run


def test_what_the_section_says(tmp_path: Path) -> None:
    run = built(tmp_path / "run").write()
    section = program_section(run, run.plan(), judged())
    assert section is not None
    assert [number for _, number in section.counts] == [3, 1, 0, 0, 0, 0, 0, 0, 0]
    assert section.mistakes == ((SAYS, 1),)
    assert section.lives == {0: (2, 1, 0, 0, 0)}


def test_the_page_has_it_escaped_and_draws_no_replicas_for_it(tmp_path: Path) -> None:
    run = built(tmp_path / "run").write()
    run.analysis.mkdir()
    run.write("analysis/verdict.json", judged().to_json())
    text = page(run)
    assert "python &lt;service&gt;.py" in text
    assert SAYS in text
    assert 'class="strip"' not in text


def test_nothing_is_counted_where_nothing_is_known(tmp_path: Path) -> None:
    run = built(tmp_path / "run").write()
    unread = judged(checkers={"lost-input": "not judged: its output was not read"})
    section = program_section(run, run.plan(), unread)
    assert section is not None
    assert section.counts == ()


def test_a_run_without_a_program_has_no_such_section(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run").write()
    assert program_section(run, run.plan(), verdict()) is None
