"""Finds the smallest plan that does the same harm as a run: fewest faults first, then less of all.

Every question, "does this plan still do it?", is asked of real brokers, and they answer by chance:
a schedule that lost a record once may keep all of them the next time. So a plan is run up to
``Rule.tries`` times and counts when ``Rule.hits`` of them do it. With 1 of 3, a plan that does it
in half of its runs is taken for one that does in 7 of 8 cases, and one that never does is never
taken. Fewer faults are worth a harm that is seen less often; shorter faults and fewer records are
not, so of these one run more has to do it. What is left is run some more times in the end, to say
how often it does it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from checkers.session import SparkStarter
from harness.api import SparkOptions
from harness.errors import UsageError
from harness.feasible import check_plan
from harness.fleet import Fleet
from harness.plan import Plan
from harness.repeating.ddmin import ddmin
from harness.repeating.goal import Goal
from harness.repeating.paste import brief_json, module_of
from harness.repeating.replay import refuse_external
from harness.repeating.smaller import (
    Smaller,
    fewer_clients,
    fewer_partitions,
    fewer_records,
    no_rest,
    shorter_steps,
    shorter_waits,
    waits,
    with_steps,
)
from harness.repeating.trials import Attempt, Rule, TimeIsUpError, Trials
from harness.steps import Steps, end_of
from harness.store import Run

Ended = Literal["smallest", "time", "interrupted", "not-reproduced"]
_HERE: Final = SparkOptions()


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a plan is: faults, seconds of them, and records that a run of it sent."""

    faults: int
    seconds: float
    partitions: int
    clients: int
    records: int

    @classmethod
    def of(cls, plan: Plan, records: int) -> "Size":
        """The size of a plan."""
        work = plan.workload
        return cls(
            faults=len(plan.steps),
            seconds=max(plan.duration_s, end_of(plan.steps)),
            partitions=plan.topic.partitions,
            clients=work.producers + work.consumers + work.subscribe,
            records=records,
        )


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What shrinking came to; ``shrunk.json``.

    Attributes:
        plan: the smallest that did it; replay it, or paste the test.
        goal: what it does.
        ended: smallest: nothing more can be left out; time, interrupted: the best so far;
            not-reproduced: not even the whole did it again.
        hits: in so many of
        runs: runs of the plan it did it, each counted after it had been found.
        attempts: plans that were tried.
        ran: runs in all, of this sitting.
        seconds: of this sitting.
    """

    schema: int = 1
    plan: Plan
    goal: Goal
    ended: Ended
    before: Size
    after: Size
    hits: int
    runs: int
    attempts: int
    ran: int
    seconds: float


def shrink(  # noqa: PLR0913 - each has a default, and is named
    plan: Plan,
    goal: Goal,
    folder: Path,
    *,
    sent: int = 0,
    rule: Rule = Rule(),  # noqa: B008 - frozen
    counts: int = 5,
    limit_s: float = float("inf"),
    spark: SparkOptions = _HERE,
    tell: Callable[[Attempt], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> Shrunk:
    """Make a plan of steps as small as it can be.

    Brokers stay warm from one run to the next, and so does Spark. ``folder`` gets ``plan.json`` as
    soon as something smaller was found, ``shrunk.json`` and a test at the end, and
    ``attempts.jsonl``, by which a later call goes on where this one was ended. Ctrl-C ends it in
    order, with the best so far.

    Args:
        plan: with steps; see ``harness.repeating.replay.as_taken``.
        goal: what it has to do.
        sent: records that the run of it sent.
        counts: so often the smallest is run once more, to say how often it does it.
        limit_s: no run begins after so many seconds.

    Raises:
        UsageError: the plan cannot be done, or is scripted.
        HarnessError: the harness cannot perform runs here.
    """
    if plan.story is not None or plan.schedule is not None:
        raise UsageError(
            "a story is a script, of which nothing can be left out",
            hint="Shrink a run of random faults.",
        )
    refuse_external(plan)
    check_plan(plan)
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with (
        SparkStarter(spark.master, spark.driver_memory) as starter,
        tempfile.TemporaryDirectory(prefix="highwater-") as clusters,
        Fleet(Path(clusters) / "clusters") as fleet,
    ):
        trials = Trials(
            goal=goal,
            rule=rule,
            folder=folder,
            fleet=fleet,
            session=starter.session,
            deadline=began + limit_s,
            tell=tell,
            progress=progress,
        )
        work = _Work(trials=trials, best=plan, sent=sent)
        ended = work.until_ended()
        hits, runs = work.confirm(counts) if ended == "smallest" and counts else work.counted
    found = Shrunk(
        plan=work.best,
        goal=goal,
        ended=ended,
        before=Size.of(plan, sent),
        after=Size.of(work.best, work.sent),
        hits=hits,
        runs=runs,
        attempts=len(trials.attempts),
        ran=trials.ran,
        seconds=round(time.monotonic() - began, 1),
    )
    Run(folder).write_struct("shrunk.json", found)
    if ended != "not-reproduced":
        work.save()
        Run(folder).write("test_shrunk.py", module_of(found.plan, goal, hits, runs).encode())
    return found


@dataclass(slots=True, kw_only=True)
class _Work:
    """Goes through what could be smaller, and knows the best so far.

    Attributes:
        best: the smallest plan that did it.
        sent: records that its run sent.
        counted: how often it did it, of how many runs.
        partitions: in which the harm was seen.
    """

    trials: Trials
    best: Plan
    sent: int
    counted: tuple[int, int] = (0, 0)
    partitions: tuple[int, ...] = field(default=())

    def until_ended(self) -> Ended:
        """Make it as small as it can be, unless something ends that before."""
        try:
            longest = max(waits(self.best.steps), default=0.0)
            whole = with_steps(self.best, self.best.steps, longest)
            if not self._holds(Smaller(f"all {len(whole.steps)} faults", whole)):
                return "not-reproduced"
            self._go_through(shorter_waits)
            self._fewest_steps()
            self._go_through(shorter_waits)
            stricter = self.trials.rule.stricter
            for index in reversed(range(len(self.best.steps))):
                self._go_through(partial(shorter_steps, index=index), stricter)
            self._go_through(lambda plan: fewer_partitions(plan, self.partitions), stricter)
            for smaller in (*fewer_clients(), fewer_records, no_rest):
                self._go_through(smaller, stricter)
        except TimeIsUpError:
            return "time"
        except KeyboardInterrupt:
            return "interrupted"
        return "smallest"

    def confirm(self, times: int) -> tuple[int, int]:
        """Run the best some more times; how often it did it, and of how many runs."""
        self.trials.progress(f"counting in how many of {times} runs it does it")
        try:
            return len(self.trials.run(self.best, times)), times
        except (KeyboardInterrupt, TimeIsUpError):
            return self.counted

    def save(self) -> None:
        """Let ``plan.json`` be the best so far."""
        Run(self.trials.folder).write("plan.json", brief_json(self.best))

    def _fewest_steps(self) -> None:
        plan = self.best
        longest = max(waits(plan.steps), default=0.0)

        def still(steps: Steps) -> bool:
            says = f"{len(steps)} of {len(plan.steps)} faults"
            return self._holds(Smaller(says, with_steps(plan, steps, longest)))

        ddmin(plan.steps, still)  # what holds is smaller each time, and so the best

    def _go_through(
        self, smaller: Callable[[Plan], Iterator[Smaller]], rule: Rule | None = None
    ) -> None:
        """Take the first of some plans that does it."""
        any(self._holds(one, rule) for one in smaller(self.best))

    def _holds(self, candidate: Smaller, rule: Rule | None = None) -> bool:
        try:
            check_plan(candidate.plan)
        except UsageError:  # what moved closer together overlaps now
            return False
        attempt = self.trials.holds(candidate.plan, candidate.says, rule=rule)
        if attempt.holds:
            self.best, self.sent = candidate.plan, attempt.sent
            self.counted, self.partitions = (attempt.hits, attempt.runs), attempt.partitions
            self.save()
        return attempt.holds
