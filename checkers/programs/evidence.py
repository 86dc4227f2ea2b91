"""The evidence about an input that a program lost or doubled."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checkers.groups.events import FOREVER, Row
from highwater.checkers.groups.generations import Generation
from highwater.checkers.programs.facts import (
    InstanceEvent,
    Output,
    Position,
    ProgramFacts,
    ProgramRequest,
    Trouble,
    passed_by,
    position_at,
)
from highwater.checkers.programs.habits import EarlyCommit, Habits
from highwater.checkers.programs.outcomes import LOST
from highwater.checkers.programs.output_log import LogCopy, OutputLog
from highwater.checkers.programs.output_times import OutputTimes
from highwater.checkers.programs.requests import GoneOutputs, ProgramRequests
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.history import OK, OPERATIONS_TABLE, SEND
from highwater.harness.runs.plan import Guarantee

INTERRUPTIONS: Final = {
    "killed": "was killed",
    "stopped": "was stopped",
    "ended": "ended by itself",
    "paused": "was paused",
    "closed": "was ended at the end of the run",
}

CLOCKS_NS: Final = 100_000_000
"""The greatest difference between a broker's clock and the harness's clock that proofs allow
for."""

ENDS: Final = frozenset(INTERRUPTIONS) - {"paused"}


def interrupted(event: InstanceEvent) -> str:
    """Return an event of an instance as text, such as ``instance 1 was killed at 4.312 s``."""
    says = f"instance {event.instance} {INTERRUPTIONS[event.event]} at {seconds(event.time_ns)}"
    unhandled = event.event == "stopped" and event.status == -signal.SIGTERM
    return f"{says}, and did not handle SIGTERM" if unhandled else says


def seconds(time_ns: int) -> str:
    """Return a time as ``4.312 s``."""
    return f"{time_ns / 1e9:.3f} s"


class FollowingInput(NamedTuple):
    """An input with an output: when the input was sent, and when the output was written."""

    offset: int
    sent_ns: int
    output_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEvidence:
    """An input that was lost or doubled, with the run's evidence about it.

    Attributes:
        outcome: the input's outcome, such as ``outcomes.LOST``.
        outputs: the committed outputs that name the input, in order of time.
        withdrawn: whether the log has an output of the input in an aborted or open transaction.
        transactional: whether all outputs of the input in the log are in transactions; None if the
            log has no output.
        later_ns: the time of the first output of a later input of the partition.
        overdue_ns: ``OutputTimes.overdue`` for the partition.
        commits: the committed offsets of the partition, in order; None if no disk has them.
        events: the events of instances, in order of time.
        undisturbed_ns: the time before which brokers cannot have lost an output.
        troubles: faults of brokers and of the program's connections.
        habits: the order of the program's commits and outputs in the run.
        stray: a copy on a disk of an output that read_committed readers do not receive.
        invoked_ns: the time at which the producer was called to send the input; None if the send
            was not acknowledged.
        sent_ns: the time at which the input was acknowledged; None if the send was not
            acknowledged.
        rival: another input that was earlier acknowledged at the same offset.
        following: the next input of the partition that has an output.
        committed_by: a function of a commit. It returns the commit's request, if the run recorded
            requests.
        gone: acknowledged outputs that no broker's log has.
        unwritten: Produce requests with an output of the input that failed, or got no response.
        idempotent: whether all outputs of the input in the log have a producer id; None if the log
            has no output.
        calm: how many of the run's inputs a commit passed without output and without fault.
        group: the committed offsets of all partitions.
        whole_ns: a function of an offset. It returns when all inputs from this offset to the input
            had their first outputs.
        gap: a function of an offset. It returns whether the final read found later records, but no
            record at this offset.
    """

    name: str
    offset: int
    outcome: str
    guarantee: Guarantee
    partition: int = 0
    outputs: Sequence[Output] = ()
    withdrawn: bool = False
    transactional: bool | None = None
    later_ns: int = FOREVER
    overdue_ns: Callable[[int, Position, int], int | None] = lambda *_: None
    commits: Sequence[Position] | None = None
    events: Sequence[InstanceEvent] = ()
    undisturbed_ns: int = FOREVER
    troubles: Sequence[Trouble] = ()
    habits: Habits = field(default_factory=Habits)
    stray: LogCopy | None = None
    invoked_ns: int | None = None
    sent_ns: int | None = None
    rival: str | None = None
    following: FollowingInput | None = None
    committed_by: Callable[[Position], ProgramRequest | None] = lambda _: None
    gone: Sequence[GoneOutputs] = ()
    unwritten: Sequence[ProgramRequest] = ()
    idempotent: bool | None = None
    calm: int = 0
    group: Mapping[int, Sequence[Position]] = field(default_factory=dict)
    whole_ns: Callable[[int], int] = lambda _: FOREVER
    gap: Callable[[int], bool] = lambda _: False

    @property
    def passed(self) -> Position | None:
        """The first commit whose position is after the input."""
        return passed_by(self.commits or (), self.offset)

    @property
    def before(self) -> int:
        """The committed offset just before ``passed``."""
        return position_at(self.commits or (), self.passed.time_ns - 1) if self.passed else 0

    @property
    def written_ns(self) -> tuple[int, int]:
        """The times at which the first and the last output were written."""
        return self.outputs[0].time_ns, self.outputs[-1].time_ns

    def interruption(self, since_ns: int, until_ns: int) -> InstanceEvent | None:
        """Return the first end or pause of an instance between ``since_ns`` and ``until_ns``."""
        events = (event for event in self.events if event.event in INTERRUPTIONS)
        return next((event for event in events if since_ns <= event.time_ns <= until_ns), None)

    def owner(self, time_ns: int) -> tuple[str, Generation] | None:
        """Return the member that owned the input's partition at a time, and its generation."""
        last = [generation for at, generation in self.habits.generations if at <= time_ns]
        member = last[-1].owner(self.partition) if last else None
        return None if member is None else (member, last[-1])

    def generation_after(self, before: Generation, since_ns: int) -> tuple[int, Generation] | None:
        """Return the begin of the first later generation since a time, and this generation."""
        return next(
            (
                (at, after)
                for at, after in self.habits.generations
                if at >= since_ns and after.number > before.number
            ),
            None,
        )


def evidence_of(
    case: RunFiles, facts: ProgramFacts, rows: Sequence[Row]
) -> Callable[[Row], InputEvidence]:
    """Return a function from a row of ``outcomes.OUTCOME`` to the evidence about its input."""
    names = [row["value"] for row in rows]
    committed, log, times = facts.outputs_of(names), OutputLog.of(case, facts), OutputTimes(facts)
    sent = _Sent(case, facts)
    habits = Habits.of(case, facts, times, log)
    requests = ProgramRequests.of(case, facts.program)
    habits = replace(habits, past_the_end=sent.early_commits(facts, requests.commits()))
    unwritten, gone = requests.failed(names), requests.gone(log.appended_ns)

    def evidence(row: Row) -> InputEvidence:
        name, partition, offset = row["value"], row["partition"], row["offset"]
        copies = log.copies.get(name, ())
        lost = row["outcome"] == LOST
        return InputEvidence(
            name=name,
            partition=partition,
            offset=offset,
            outcome=row["outcome"],
            guarantee=facts.program.guarantee,
            outputs=[o._replace(by=requests.written_by(o)) for o in committed.get(name, ())],
            withdrawn=lost and any(copy.transactional for copy in copies),
            stray=next((copy for copy in copies if lost and _is_stray(copy, facts)), None),
            transactional=all(copy.transactional for copy in copies) if copies else None,
            later_ns=times.later(partition, offset),
            overdue_ns=partial(times.overdue, partition),
            commits=None if facts.commits is None else facts.commits.get(partition, ()),
            events=facts.events,
            undisturbed_ns=max(facts.undisturbed_ns, log.whole_until_ns)
            if facts.program.out
            else FOREVER,
            troubles=facts.troubles or (),
            habits=habits,
            invoked_ns=sent.invoked_ns(name),
            sent_ns=sent.acknowledged_ns(name),
            rival=sent.rival(name, partition, offset),
            following=sent.following(partition, times.following(partition, offset)),
            committed_by=partial(requests.committed_by, partition),
            gone=gone,
            unwritten=unwritten.get(name, ()),
            idempotent=all(c.producer_id is not None for c in copies) if copies else None,
            group=facts.commits or {},
            whole_ns=partial(times.whole_at, partition, until=offset + 1),
            gap=partial(sent.gap, partition),
        )

    return evidence


def _is_stray(copy: LogCopy, facts: ProgramFacts) -> bool:
    """Return whether a copy was written outside of transactions, before the last instance ended."""
    return not copy.transactional and any(copy.time_ns < event.time_ns for event in facts.events)


class _Sent:
    """The times at which inputs were sent and acknowledged, in nanoseconds of the run."""

    def __init__(self, case: RunFiles, facts: ProgramFacts) -> None:
        columns = ["kind", "outcome", "value", "invoke_ns", "complete_ns", "partition", "offset"]
        table = pq.read_table(case.tables[OPERATIONS_TABLE], columns=columns)
        done = table.filter(pc.and_(pc.equal(table["kind"], SEND), pc.equal(table["outcome"], OK)))
        times = zip(done["invoke_ns"].to_pylist(), done["complete_ns"].to_pylist(), strict=True)
        self._times = dict(zip(done["value"].to_pylist(), times, strict=True))
        self._done = done
        self._inputs = facts.inputs

    def invoked_ns(self, name: str) -> int | None:
        return self._times[name][0] if name in self._times else None

    def early_commits(
        self, facts: ProgramFacts, requests: Sequence[tuple[int, int, int]]
    ) -> list[EarlyCommit]:
        """Return the commits of positions after an input that was not sent yet, in order of time.

        Commits after a broker's fault are left out, because brokers may have lost another record at
        the offset.

        Args:
            facts: the facts with the commits on the disks, which are used if no request was
                recorded.
            requests: time, partition and offset of each commit request.
        """
        inputs = self._inputs.select(["partition", "offset", "value"]).to_pylist()
        names = {(row["partition"], row["offset"]): row["value"] for row in inputs}
        commits = requests or [
            (commit.time_ns + CLOCKS_NS, partition, commit.offset)
            for partition, of_partition in (facts.commits or {}).items()
            for commit in of_partition
        ]
        return sorted(
            EarlyCommit(time_ns, partition, offset, invoked_ns)
            for time_ns, partition, offset in commits
            for invoked_ns in [self.invoked_ns(names.get((partition, offset - 1), ""))]
            if invoked_ns is not None and time_ns < invoked_ns < facts.undisturbed_ns
        )

    def acknowledged_ns(self, name: str) -> int | None:
        return self._times[name][1] if name in self._times else None

    def rival(self, name: str, partition: int, offset: int) -> str | None:
        done = self._done
        here = pc.and_(pc.equal(done["partition"], partition), pc.equal(done["offset"], offset))
        rows = done.filter(here).sort_by("complete_ns")["value"].to_pylist()
        return rows[0] if name in rows[1:] else None

    def gap(self, partition: int, offset: int) -> bool:
        """Return whether the partition has inputs after an offset, but no input at this offset."""
        offsets = self._inputs.filter(pc.equal(self._inputs["partition"], partition))["offset"]
        last = pc.max(offsets).as_py()
        return last is not None and last > offset and offset not in {*offsets.to_pylist()}

    def following(self, partition: int, place: tuple[int, int] | None) -> FollowingInput | None:
        """Return the input at ``place``, its offset and its output's time; None without a send."""
        if place is None:
            return None
        offset, output_ns = place
        inputs = self._inputs
        at = pc.and_(pc.equal(inputs["partition"], partition), pc.equal(inputs["offset"], offset))
        name = inputs.filter(at)["value"][0].as_py()
        return (
            FollowingInput(offset, self._times[name][0], output_ns) if name in self._times else None
        )
