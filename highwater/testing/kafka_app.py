"""Run and judge a user's program from Python: the class ``App`` and the fixture ``kafka_app``."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.testing.kafka_run import CaseRuns
from highwater.testing.results import Result

if TYPE_CHECKING:
    from highwater.harness.runs.store import Store

_TOPICS = ("topic", "out")


class App:
    """A program under test and its faults: the options of ``highwater app`` as a value.

    Args:
        command: the program and its arguments, as a list of words or as one line.
        words: plan options of ``highwater app``: the input topic ``topic``, the output topic
            ``out``, and others such as ``instances=3``, ``guarantee="exactly-once"`` or
            ``duration="60s"``.

    Attributes:
        plan: the plan of the program's run, which ``perform`` also accepts.

    Raises:
        UsageError: an argument does not exist, or a value does not fit its setting.
    """

    def __init__(self, command: str | Sequence[str], **words: Any) -> None:  # noqa: ANN401 - of each setting's type
        from highwater.runtime.requested_plan import requested_app  # noqa: PLC0415 - imports brokers' clients

        arguments = [*_TOPICS, *options_of(Plan), *options_of(ProgramPlan)]
        if unknown := [word for word in words if word not in arguments]:
            raise UsageError(
                f"App has no argument {unknown[0]!r}",
                hint=nearest(unknown[0], arguments),
            )
        topics = {name: words.pop(name, None) for name in _TOPICS}
        line = shlex.split(command) if isinstance(command, str) else command
        self.plan: Plan = requested_app(line, words, **topics)

    def __repr__(self) -> str:
        return f"<{self.plan.command()}>"

    def run(self, store: "Store") -> Result:
        """Run the program under faults, and judge the outcomes of its inputs.

        Raises:
            UsageError: the plan cannot be executed; nothing was started.
            HarnessError: the run could not continue.
        """
        from highwater.api import perform  # noqa: PLC0415 - imports Spark

        (judged,) = perform([self.plan], store)
        return Result(judged)


class KafkaApp(CaseRuns):
    """Runs a program under faults on real brokers, and judges the outcomes of its inputs."""

    def __call__(
        self,
        command: str | Sequence[str],
        *,
        check: bool = True,
        **words: Any,  # noqa: ANN401 - of each setting's type
    ) -> Result:
        """Run a program and judge it.

        Args:
            command: the program and its arguments, as a list of words or as one line.
            words: arguments of ``App``; defaults come from the test's release and settings.
            check: whether a broken guarantee fails the test; if False, the result is returned.

        Raises:
            PromiseBroken: the verdict is ``invalid``, and ``check`` is on.
            CannotJudge: the verdict is ``unknown``; the test has an error even without ``check``.
            HighwaterError: the harness failed; the test has an error even without ``check``.
        """
        __tracebackhide__ = True
        return self.judged(
            lambda: App(command, **{**self.case.settings, **words}).plan, check=check
        )
