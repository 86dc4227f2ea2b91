"""Find the smallest plan that reproduces a run's anomaly: reduce faults, then the rest.

Every smaller plan runs on real brokers, and the outcome depends on chance: a schedule that lost a
record once may lose none the next time. A run with the anomaly is a *hit*. A plan runs up to
``HitThreshold.tries`` times, and is accepted after ``HitThreshold.hits`` hits. With 1 hit in 3
tries, a plan that hits in half of its runs is accepted with probability 7/8; a plan that never hits
is never accepted. A plan with fewer faults may hit more rarely. A plan with shorter faults or fewer
records should not hit more rarely, so it needs one more hit. At the end, the smallest plan runs
several more times, to measure how often it hits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from highwater.harness.base.ddmin import ddmin
from highwater.harness.base.errors import UsageError
from highwater.harness.base.wording import count
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import Steps
from highwater.harness.runs.store import Run
from highwater.runtime.preflight import check_plan
from highwater.shrinking.candidates import (
    Candidate,
    fewer_clients,
    fewer_partitions,
    fewer_records,
    no_rest,
    shorter_steps,
    shorter_waits,
    waits,
    with_steps,
)
from highwater.shrinking.exported_test import brief_json
from highwater.shrinking.trials import HitThreshold, TimeIsUpError, Trials

Ended = Literal["smallest", "time", "interrupted", "not-reproduced"]


@dataclass(slots=True, kw_only=True)
class Search:
    """Tries smaller and smaller plans, and stores the best plan.

    Attributes:
        best: the smallest plan that had the anomaly.
    """

    trials: Trials
    best: Plan
    sent: int
    counted: tuple[int, int] = (0, 0)
    partitions: tuple[int, ...] = field(default=())

    def until_ended(self) -> Ended:
        """Make the plan as small as possible, and return why the search ended."""
        try:
            longest = max(waits(self.best.steps), default=0.0)
            whole = with_steps(self.best, self.best.steps, longest)
            if not self._holds(Candidate(f"all {count(len(whole.steps), 'fault')}", whole)):
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
        """Run the best plan some more times; return the numbers of hits and of runs."""
        self.trials.progress(f"counting how many of {times} runs have the anomaly")
        try:
            return len(self.trials.run(self.best, times)), times
        except (KeyboardInterrupt, TimeIsUpError):
            return self.counted

    def save(self) -> None:
        """Write the best plan so far to ``plan.json``."""
        Run(self.trials.folder).write("plan.json", brief_json(self.best))

    def _fewest_steps(self) -> None:
        plan = self.best
        longest = max(waits(plan.steps), default=0.0)

        def still(steps: Steps) -> bool:
            says = f"{len(steps):,} of {count(len(plan.steps), 'fault')}"
            return self._holds(Candidate(says, with_steps(plan, steps, longest)))

        ddmin(
            plan.steps, still
        )  # each accepted plan is smaller than the one before, so it is the best

    def _go_through(
        self, smaller: Callable[[Plan], Iterator[Candidate]], rule: HitThreshold | None = None
    ) -> None:
        any(self._holds(candidate, rule) for candidate in smaller(self.best))

    def _holds(self, candidate: Candidate, rule: HitThreshold | None = None) -> bool:
        try:
            check_plan(candidate.plan)
        except UsageError:  # steps that moved closer together may overlap now
            return False
        attempt = self.trials.holds(candidate.plan, candidate.says, rule=rule)
        if attempt.holds:
            self.best, self.sent = candidate.plan, attempt.sent
            self.counted, self.partitions = (attempt.hits, attempt.runs), attempt.partitions
            self.save()
        return attempt.holds
