"""Wait until a program under test has processed all input, and read its output."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from highwater.harness.clients.programs.outputs import read_outputs, record_exempt
from highwater.harness.clients.programs.positions import WorkDone, await_end
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.runtime.programs.instances import RunningProgram
from highwater.runtime.programs.printed_lines import ACKNOWLEDGED, DONE
from highwater.runtime.workload import RunningWorkload

APPEND_TIMES: Final = {"message.timestamp.type": "LogAppendTime"}
"""Settings of the output topic. With them a record's timestamp is the time when a broker appended
it."""

END_LIMIT_S: Final = 90.0
"""The longest time without progress. By default the group removes a killed member after 45 s."""

READ_LIMIT_S: Final = 90.0
"""The time limit of the output's read. By default, an abandoned transaction remains open for 60 s.
"""


@contextlib.contextmanager
def work_done(
    plan: Plan, program: RunningProgram | None, workload: RunningWorkload
) -> Iterator[Callable[[], int | None]]:
    """Yield a function that counts outputs and committed inputs; it returns None if unknown."""
    if program is None:
        yield lambda: None
        return
    count = WorkDone(plan, program.plan, workload.group_reader(), program.printed)
    with contextlib.closing(count):
        yield count


def finish(
    plan: Plan, program: RunningProgram, workload: RunningWorkload, recorder: Recorder
) -> list[str]:
    """Wait until the program has processed all input, stop the program, and record its output.

    Returns:
        Sentences that say why the run cannot be judged; empty if it can be judged.
    """
    settings = workload.group_reader()
    problems = []
    if not plan.without_input:
        problems += await_end(plan, program.plan, settings, program.printed, limit_s=END_LIMIT_S)
    problems += program.crashed(stuck=bool(problems))
    program.close()
    for says in program.notes():
        recorder.fault("step", "note", says)
    problems += record_exempt(program.plan, workload.inputs(), recorder)
    if (plan.without_input or not program.plan.out) and not program.printed():
        word = ACKNOWLEDGED if plan.without_input else DONE
        problems += [f"The program has printed no line with {word} and a name."]
    if not program.plan.out:
        return problems
    return problems + read_outputs(plan, program.plan, recorder, settings, limit_s=READ_LIMIT_S)
