"""Compare a run's verdict with the prediction for its story, release and settings."""

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import UNKNOWN, Verdict
from highwater.nemesis.model_replay.transaction_replay import is_transaction_replay
from highwater.nemesis.stories.registry import STORIES, find_story

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.checkers.model.protocol.rules_by_release import Rules
    from highwater.checkers.model.report_types import PartitionOutcome, Reconciliation


def as_predicted(run: Run, verdict: Verdict) -> bool | None:
    """Return whether the records that were lost, forked or read wrongly are the predicted ones.

    Returns:
        None if the run had no story, so no prediction; False if the run could not be judged.
    """
    plan = run.plan()
    if plan.story is None:
        return None
    if verdict.verdict == UNKNOWN:
        return False
    story = find_story(plan.story)
    predicted = story.predict(release(plan.played_on), plan)
    lost = {anomaly.value for anomaly in verdict.anomalies if anomaly.kind == "lost-write"}
    forked = {anomaly.offset for anomaly in verdict.anomalies if anomaly.kind == "divergence"}
    others = {
        (row.kind, None if (row.kind, None) in predicted.others else row.value or "")
        for row in verdict.anomalies
        if row.breaks and row.kind not in ("lost-write", "divergence")
    }
    as_told = story.harm is None or others == predicted.others  # the model lacks other releases
    return lost == predicted.lost and forked == predicted.forked and as_told


def reconcile(run: Run, verdict: Verdict) -> "Reconciliation":
    """Compare a judged run with the model, and write ``analysis/model.json`` into the run.

    If the run is damaged, the result has the status ``unknown`` and a reason.
    """
    closed = () if verdict.complete else (OSError,)
    answer = _answer(run, verdict)
    with contextlib.suppress(*closed):
        run.write("analysis/model.json", answer.to_json())
    return answer


def _answer(run: Run, verdict: Verdict) -> "Reconciliation":
    # The rules use Numba, which takes half a second to import.
    from highwater.checkers.explain.reconcile import as_random  # noqa: PLC0415
    from highwater.checkers.model.protocol.rules_by_release import RELEASES  # noqa: PLC0415

    if not verdict.complete:
        # Almost every rule relies on events that did *not* happen, such as a send without a record,
        # or a truncation that no broker logged. Rows that cannot be read would look the same.
        why = "The run ended early" if verdict.cut else "Some of the run's files cannot be read"
        return _not_known(run, verdict, f"{why}, but the model explains complete runs only.")
    if not run.disks_here or not run.anomalies.exists():
        why = (
            "The run is on remote storage, and too large to be copied to this machine for the "
            "model."
        )
        return _not_known(run, verdict, why)
    if verdict.kafka not in RELEASES:
        return as_random(run, verdict)
    plan = run.plan()
    answer = _ruled(run, plan, verdict)
    return msgspec.structs.replace(answer, protocol=plan.protocol, written=plan.format)


def _ruled(run: Run, plan: Plan, verdict: Verdict) -> "Reconciliation":
    from highwater.checkers.explain.reconcile import as_random, as_scripted  # noqa: PLC0415 - for the same reason
    from highwater.checkers.model.protocol.rules_by_release import rules_of  # noqa: PLC0415 - for the same reason
    from highwater.checkers.model.schedules.script import ScriptError, remedies  # noqa: PLC0415 - for the same reason

    tell = _teller(plan)
    rules = rules_of(verdict.kafka, protocol=plan.protocol, written=plan.format)
    if tell is None:
        return as_random(run, verdict)
    try:
        outcome = tell(rules)
    except ScriptError:
        return as_random(run, verdict)
    harms = outcome.lost or outcome.forked
    course = (
        find_story(plan.story).rehearse(release(plan.played_on), plan)
        if plan.story in STORIES
        else ()
    )
    return as_scripted(run, verdict, outcome, remedies(tell, rules) if harms else (), course)


def _not_known(run: Run, verdict: Verdict, why: str) -> "Reconciliation":
    from highwater.checkers.model.report_types import PartitionOutcome, Reconciliation  # noqa: PLC0415 - as below

    return Reconciliation(
        run=run.name,
        kafka=verdict.kafka,
        kind="random",
        status="unknown",
        reasons=(why,),
        observed=PartitionOutcome(),
    )


def _teller(plan: Plan) -> "Callable[[Rules], PartitionOutcome] | None":
    """Return a function from rules to the predicted outcome; None for a plan without script."""
    from highwater.checkers.model.schedules.schedule import Schedule  # noqa: PLC0415 - for the same reason
    from highwater.checkers.model.schedules.script import predict  # noqa: PLC0415

    kafka = release(plan.played_on)
    if plan.story in STORIES and STORIES[plan.story].script:
        return partial(find_story(plan.story).modelled, kafka, plan)
    if plan.schedule is None or is_transaction_replay(plan):
        return None
    schedule = Schedule.from_plain(plan.schedule)
    unclean = plan.topic.unclean_leader_election and kafka.elects_unclean
    return partial(predict, schedule, unclean=unclean) if schedule.moves else None
