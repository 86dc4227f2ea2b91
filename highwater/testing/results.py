"""The result that a test gets from a run, and the exceptions of its assertions."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from highwater.harness.base.errors import HarnessError
from highwater.reports.sections.program import ONCE, input_counts

if TYPE_CHECKING:
    from highwater.api import JudgedRun, StoredRun
    from highwater.checkers.model.report_types import Reconciliation
    from highwater.harness.runs.plan import Plan
    from highwater.harness.runs.verdict import Anomaly

_SHOWN_MAX: Final = 3  # the greatest number of anomalies in a failure's message; the report has all


class PromiseBroken(AssertionError):  # noqa: N818 - it reads as what happened, in pytest.raises
    """The run broke a guarantee of its settings; the test fails, although the harness worked.

    Attributes:
        result: the judged run.
    """

    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message)
        self.result = result


class Unexplained(AssertionError):  # noqa: N818 - for the same reason
    """The release's rules do not explain a finding, or the run ended differently than predicted.

    Attributes:
        result: the judged run.
    """

    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message)
        self.result = result


class CannotJudge(HarnessError):  # noqa: N818 - for the same reason
    """The verdict is ``unknown``: the test neither passes nor fails.

    Attributes:
        result: the judged run.
    """

    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message, hint=result.where)
        self.result = result


class Result:
    """A judged run.

    Attributes:
        verdict: ``valid``, ``invalid``, or ``unknown``.
        headline: the verdict in one sentence, with the numbers of records.
        lost: number of lost acknowledged records.
        acknowledged: number of acknowledged records.
        inputs: for a program under test, the number of inputs by outcome: ``{"once": 98, …}``;
            empty if the outcomes are unknown.
        anomalies: all anomalies; those that break a guarantee come first.
        model: the model's explanation of the run; None if it was not compared with the model.
        plan: the plan of the run; ``plan.command()`` repeats the run.
    """

    def __init__(self, judged: "JudgedRun") -> None:
        verdict = judged.verdict
        self._judged = judged
        self.verdict: Literal["valid", "invalid", "unknown"] = verdict.verdict
        self.headline: str = verdict.headline
        self.lost: int = verdict.ledger.lost
        self.acknowledged: int = verdict.ledger.acknowledged
        self.anomalies: tuple[Anomaly, ...] = verdict.anomalies
        self.model: Reconciliation | None = judged.model
        self.report: Path = judged.report
        self.plan: Plan = judged.run.plan()
        self.inputs: dict[str, int] = input_counts(verdict) if self.plan.program else {}

    def __repr__(self) -> str:
        return f"<{self.verdict}: {self.headline}; {self.report}>"

    @property
    def as_predicted(self) -> bool | None:
        """Return whether the lost and forked records are exactly those that the rules predict.

        The result is None without a prediction, as for a random nemesis.
        """
        from highwater.runtime.prediction_check import as_predicted  # noqa: PLC0415 - imports brokers' clients

        return as_predicted(self._judged.run, self._judged.verdict)

    @property
    def tables(self) -> "StoredRun":
        """The stored run, with its tables as pandas or Spark data and the complete verdict."""
        from highwater.api import StoredRun  # noqa: PLC0415 - imports Spark

        return StoredRun(self._judged.run)

    @property
    def where(self) -> str:
        """The path of the report, and the command that repeats the run, in two lines."""
        return f"report: {self.report}\nrepeat: {self.plan.command()}"

    def assert_as_promised(self) -> None:
        """Fail if a guarantee was broken.

        Raises:
            PromiseBroken: the verdict is ``invalid``.
            CannotJudge: the verdict is ``unknown``.
        """
        __tracebackhide__ = True
        self.assert_judged()
        if self.verdict == "invalid":
            breaking = [anomaly for anomaly in self.anomalies if anomaly.breaks]
            limits = () if breaking else self._judged.verdict.reasons
            lines = [self.headline, *limits, *_sentences(breaking)]
            lines += [*self._model_says(), self.where]
            raise PromiseBroken("\n".join(lines), self)

    def assert_loses(self, *values: str) -> None:
        """Fail unless exactly these acknowledged records were lost, even if Kafka allows it.

        Args:
            values: ids of records, such as ``m3``, which most stories lose.

        Raises:
            AssertionError: other records were lost, or none.
            CannotJudge: the verdict is ``unknown``.
        """
        __tracebackhide__ = True
        self.assert_judged()
        lost = [anomaly.value or "?" for anomaly in self.anomalies if anomaly.kind == "lost-write"]
        if self.lost != len(values) or set(lost) != set(values):
            raise AssertionError(
                f"{_listed(values)} should be lost, and {_listed(lost)} of {self.acknowledged}"
                f" acknowledged was\n{self.headline}\n{self.where}"
            )

    def assert_none(self, *kinds: str) -> None:
        """Fail if the run has an anomaly of one of these kinds, even if no guarantee was broken.

        Args:
            kinds: kinds of anomaly such as ``lost-write``; docs/checkers.md lists all kinds.

        Raises:
            AssertionError: the run has such an anomaly; the message describes it.
            CannotJudge: the verdict is ``unknown``.
        """
        __tracebackhide__ = True
        self.assert_judged()
        if anomalies := [anomaly for anomaly in self.anomalies if anomaly.kind in kinds]:
            raise AssertionError("\n".join([self.headline, *_sentences(anomalies), self.where]))

    def assert_explained(self) -> None:
        """Fail unless the model explains the complete run, and the run ended as predicted.

        A loss that a release's rules cause is explained, even if it breaks a guarantee.

        Raises:
            Unexplained: a finding does not follow from the rules, or a prediction was wrong.
            CannotJudge: the verdict or the model's status is ``unknown``.
        """
        __tracebackhide__ = True
        from highwater.reports.model_text import GOOD, sentence, sentences  # noqa: PLC0415 - for the same reason

        self.assert_judged()
        model = self.model
        if model is None or model.status == "unknown":
            why = sentence(model) if model else "it has no explanation by the model."
            raise CannotJudge(f"the model cannot explain the run: {why}", self)
        if model.status not in GOOD:
            strange = sentences(
                [finding for finding in model.findings if finding.verdict == "unexplained"]
            )
            lines = [sentence(model), *model.absent, *strange, self.where]
            raise Unexplained("\n".join(lines), self)

    def _model_says(self) -> list[str]:
        from highwater.reports.model_text import WORDS, sentence  # noqa: PLC0415 - for the same reason

        model = self.model
        return [] if model is None else [f"model: {WORDS[model.status]}. {sentence(model)}"]

    def assert_judged(self) -> None:
        """Raise CannotJudge if the verdict is ``unknown``, because a test must not pass then."""
        __tracebackhide__ = True
        if self.verdict == "unknown":
            reasons = " ".join(self._judged.verdict.reasons) or self.headline
            raise CannotJudge(f"the run could not be judged: {reasons}", self)

    def row(self) -> dict[str, str]:
        """Return facts of the run as properties of its test, for JUnit and the summary."""
        plan = self.plan
        return {
            "kafka": plan.kafka,
            "driver": plan.driver,
            "acks": plan.workload.acks,
            "verdict": self.verdict,
            "lost": str(self.lost),
            "acknowledged": str(self.acknowledged),
            "model": self.model.status if self.model else "",
            "report": str(self.report),
            "what": _what(plan, self.inputs),
        }


def _what(plan: "Plan", inputs: dict[str, int]) -> str:
    happened = "no faults" if plan.happens == "calm" else plan.happens.replace(",", "+")
    if plan.program is not None:
        wrong = [f"{number} {kind}" for kind, number in inputs.items() if number and kind != ONCE]
        return f"{happened} {Path(plan.program.command[-1]).name}: {', '.join(wrong) or 'all once'}"
    words = [happened, f"acks={plan.workload.acks}", f"min_isr={plan.topic.min_insync_replicas}"]
    return " ".join([*words, *["unclean"] * plan.topic.unclean_leader_election])


def _sentences(anomalies: "list[Anomaly]") -> list[str]:
    more = len(anomalies) - _SHOWN_MAX
    sentences = [anomaly.sentence for anomaly in anomalies[:_SHOWN_MAX]]
    return [*sentences, f"… and {more} more, in the report"] if more > 0 else sentences


def _listed(values: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(values) or "nothing"
