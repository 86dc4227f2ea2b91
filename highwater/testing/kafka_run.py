"""The fixture ``kafka_run``, and code that it shares with the fixture ``kafka_app``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from highwater.harness.base.errors import HighwaterError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan
from highwater.testing.parametrize import Case
from highwater.testing.results import Result

if TYPE_CHECKING:
    from highwater.testing.session import Laboratory


class CaseRuns:
    """Performs and judges runs for a test's case (its release and settings).

    Args:
        case: the release and the settings of the test.
        laboratory: returns the session's laboratory, which is created at its first use.
        note: called with every judged run.
    """

    def __init__(
        self, case: Case, laboratory: "Callable[[], Laboratory]", note: Callable[[Result], None]
    ) -> None:
        self.case = case
        self._laboratory = laboratory
        self._note = note

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.case.id} on {self.case.driver}>"

    def judged(self, plan: Callable[[], Plan], *, check: bool) -> Result:
        """Perform the plan that ``make`` returns, and judge the run; see ``KafkaRun``."""
        __tracebackhide__ = True
        try:
            result = Result(self._laboratory().perform(plan()))
        except HighwaterError as error:
            raise error.with_traceback(None) from None  # the message says everything
        self._note(result)
        if check:
            result.assert_as_promised()
        result.assert_judged()
        return result


class KafkaRun(CaseRuns):
    """Performs runs on real brokers, and judges them. A test may call this object several times."""

    def __call__(
        self,
        plan: Plan | None = None,
        *,
        check: bool = True,
        **words: Any,  # noqa: ANN401 - of each setting's type
    ) -> Result:
        """Perform a run and judge it.

        Args:
            plan: a plan to perform unchanged; or None, and ``words`` describe the plan.
            words: ``story="loss"``, or ``nemesis="kill,pause", duration="20s", seed=7``, and any
                other option of ``highwater run`` about a plan, such as ``min_isr=2`` or
                ``wire_clients=True``. Defaults come from the test's release and settings.
            check: whether a broken guarantee fails the test; if False, the result is returned.

        Raises:
            PromiseBroken: the verdict is ``invalid``, and ``check`` is on.
            CannotJudge: the verdict is ``unknown``; the test has an error even without ``check``.
            HighwaterError: the harness failed; the test has an error even without ``check``.
        """
        __tracebackhide__ = True
        return self.judged(lambda: self._ready(plan, words), check=check)

    def plan(self, **words: Any) -> Plan:  # noqa: ANN401 - of each setting's type
        """Return the plan of a run for this test; ``msgspec.structs.replace`` can change the plan.

        Raises:
            UsageError: no story or nemesis is named, or a name is unknown.
        """
        return make(self.case, **words)

    def _ready(self, plan: Plan | None, words: dict[str, Any]) -> Plan:
        if plan is None:
            return self.plan(**words)
        if words:
            raise UsageError(
                f"kafka_run accepts a plan or {', '.join(words)}, not both",
                hint="Put the settings into the plan: kafka_run(kafka_run.plan(…)).",
            )
        case = self.case
        if (plan.kafka, plan.driver) != (case.kafka, case.driver):
            raise UsageError(
                f"the plan is for Kafka {plan.kafka} on {plan.driver}, but this test runs for Kafka"
                f" {case.kafka} on {case.driver}",
                hint="Make the plan with kafka_run.plan(…), or from the fixture highwater_case.",
            )
        return plan


def make(case: Case, **words: Any) -> Plan:  # noqa: ANN401 - of each setting's type
    """Return the plan of a run for a test's release and settings."""
    from highwater.nemesis.stories.registry import STORIES  # noqa: PLC0415 - imports brokers' clients
    from highwater.runtime.requested_plan import requested_plan  # noqa: PLC0415 - as well

    arguments = [name for name in options_of(Plan) if name not in {"kafka", "cluster"}]
    if unknown := [word for word in words if word not in arguments]:
        raise UsageError(
            f"kafka_run has no argument {unknown[0]!r}",
            hint=nearest(unknown[0], [*arguments, "check"]),
        )
    if "story" not in words and "nemesis" not in words:
        raise UsageError(
            "kafka_run needs a story or a nemesis",
            hint=f'Write kafka_run(nemesis="kill,pause"), or name a story. {nearest("", STORIES)}',
        )
    return requested_plan({**case.settings, **words})
