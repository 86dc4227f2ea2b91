"""The events of one input in a program, as steps and evidence of an anomaly.

A step has an actor (``process``), an event (``kind``), a time (``invoke_ns``) and a sentence
(``value``).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from highwater.checkers.core.anomaly_kinds import MISTAKE
from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.evidence import InputEvidence, interrupted
from highwater.checkers.programs.facts import ProgramRequest
from highwater.checkers.programs.mistakes import Mistake
from highwater.harness.runs.history import (
    INSTANCES_TABLE,
    OPERATIONS_TABLE,
    OUTPUTS_TABLE,
    REQUESTS_TABLE,
)
from highwater.harness.runs.store import COORDINATORS_FOLDER
from highwater.harness.runs.verdict import Witness

Step = dict[str, Any]
_STARTS: Final = {"started": "started", "resumed": "went on"}
_SOURCES: Final = {
    "acknowledged": OPERATIONS_TABLE,
    "committed": COORDINATORS_FOLDER,
    "output": OUTPUTS_TABLE,
    "answered": REQUESTS_TABLE,
    MISTAKE: "judge",
}


def steps(evidence: InputEvidence, mistake: Mistake | None) -> list[Step]:
    """Return the events of an input in order of time, and the program's mistake."""
    ordered = sorted(_steps(evidence), key=lambda step: step["invoke_ns"])
    return [*ordered, judgement(mistake)]


def judgement(mistake: Mistake | None) -> Step:
    """Return the last step of a finding, which names the party at fault."""
    return _step("judge", MISTAKE, None, blame(mistake))


def blame(mistake: Mistake | None) -> str:
    """Return one or two sentences that name the party at fault, its mistake, and the fix."""
    if mistake is None:
        return "The cause is not known."
    return f"{mistake.by} did it: {mistake.name}. {mistake.fix}"


def explained(mistake: Mistake | None, why: str) -> str:
    """Return a short explanation of an input's outcome, which follows the finding's sentence."""
    says = f" {why[:1].upper()}{why[1:]}." if why else ""
    who = f"{mistake.by}: {mistake.name}." if mistake else blame(None)
    return f"{says} {who}"


def witnesses(row: Mapping[str, Any]) -> tuple[Witness, ...]:
    """Return the steps of an anomaly's row as a list of evidence."""
    return tuple(
        Witness(
            who=step["process"],
            what=step["kind"],
            time_ns=step["invoke_ns"],
            says=step["value"],
            source=_SOURCES.get(step["kind"], INSTANCES_TABLE),
        )
        for step in row["steps"] or ()
    )


def _steps(evidence: InputEvidence) -> Iterator[Step]:
    if evidence.sent_ns is not None:
        says = f"{evidence.name} was acknowledged at offset {evidence.offset}."
        yield _step("producer", "acknowledged", evidence.sent_ns, says)
    yield from _written(evidence)
    before = [commit for commit in evidence.commits or () if commit.offset <= evidence.offset]
    for commit in (*before[-1:], *([evidence.passed] if evidence.passed else [])):
        says = f"The group committed position {commit.offset}."
        request = evidence.committed_by(commit)
        yield _step(_sender(request), "committed", commit.time_ns, says)
    first, last = _span(evidence, evidence.sent_ns or 0)
    near = [event for event in evidence.events if first <= event.time_ns <= last]
    for event in near:
        what = _STARTS.get(event.event)
        says = f"instance {event.instance} {what}" if what else interrupted(event)
        says = f"{says[:1].upper()}{says[1:]}."
        yield _step(f"instance {event.instance}", event.event, event.time_ns, says)


def _written(evidence: InputEvidence) -> Iterator[Step]:
    """Yield the outputs, their acknowledgements, and the requests whose outputs no log has."""
    for output in evidence.outputs:
        says = f"An output of this input was written at {output.place}."
        yield _step(_sender(output.by), "output", output.time_ns, says)
        if output.by is not None and output.by.answered_ns is not None:
            says = f"This output was acknowledged to {output.by.sender}."
            yield _step("wire", "answered", output.by.answered_ns, says)
    for request in evidence.unwritten:
        says = f"A Produce with an output of this input, by {request.sender}, {request.answer}."
        yield _step("wire", "answered", request.time_ns, says)


def _sender(request: ProgramRequest | None) -> str:
    return "program" if request is None else request.sender.removeprefix("the ")


def _span(evidence: InputEvidence, since_ns: int) -> tuple[int, int]:
    """Return the interval of the events to show: until an instance starts or resumes afterwards."""
    times = [output.time_ns for output in evidence.outputs]
    times += [evidence.passed.time_ns] if evidence.passed else []
    last = max(times, default=since_ns)
    after = [event for event in evidence.events if event.time_ns >= last]
    started = next((event.time_ns for event in after if event.event in _STARTS), FOREVER)
    return since_ns, started


def _step(process: str, kind: str, time_ns: int | None, says: str) -> Step:
    return {
        "process": process,
        "op": None,
        "kind": kind,
        "outcome": None,
        "invoke_ns": time_ns,
        "complete_ns": None,
        "partition": None,
        "offset": None,
        "value": says,
    }
