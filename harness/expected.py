"""Whether a run ended as its story, its release and its settings say that it must, and why."""

from typing import TYPE_CHECKING

from clusters.versions import release
from harness.plan import Plan
from harness.store import Run
from harness.verdict import UNKNOWN, Verdict
from nemesis.stories import STORIES, find_story

if TYPE_CHECKING:
    from checkers.model.reconciliation import Outcome, Reconciliation


def as_predicted(run: Run, verdict: Verdict) -> bool | None:
    """Whether exactly what was predicted to be lost and forked was, and nothing else.

    Returns:
        None when nothing is predicted, because the run had no story; False also when the run could
        not be judged, because a schedule that was missed proves nothing.
    """
    plan = run.plan()
    if plan.story is None:
        return None
    if verdict.verdict == UNKNOWN:
        return False
    predicted = find_story(plan.story).predict(release(plan.kafka), plan)
    lost = {one.value for one in verdict.anomalies if one.kind == "lost-write"}
    forked = {one.offset for one in verdict.anomalies if one.kind == "divergence"}
    return lost == predicted.lost and forked == predicted.forked


def reconcile(run: Run, verdict: Verdict) -> "Reconciliation":
    """Hold a judged run against the model, and leave ``analysis/model.json`` in it.

    Nothing about the run can make it fail; what cannot be read is an answer of its own.
    """
    # The rules are of Numba, which takes half a second to import.
    from checkers.model.reconcile.answer import as_random, as_scripted  # noqa: PLC0415

    foretold = None if verdict.kafka == "unknown" else _foretold(run.plan())
    answer = as_scripted(run, verdict, foretold) if foretold else as_random(run, verdict)
    run.write("analysis/model.json", answer.to_json())
    return answer


def _foretold(plan: Plan) -> "Outcome | None":
    """What the model makes of a plan's script; None when there is none that it can play."""
    from checkers.model.rules import RELEASES, rules_of  # noqa: PLC0415 - as above
    from checkers.model.schedule import Schedule  # noqa: PLC0415
    from checkers.model.script import ScriptError, foretell  # noqa: PLC0415

    if plan.kafka not in RELEASES:
        return None
    kafka = release(plan.kafka)
    if plan.story in STORIES:
        return find_story(plan.story).foretell(kafka, plan)
    if plan.schedule is None:
        return None
    schedule = Schedule.from_plain(plan.schedule)
    unclean = plan.topic.unclean_leader_election and kafka.elects_unclean
    try:
        return foretell(schedule, rules_of(plan.kafka), unclean=unclean) if schedule.moves else None
    except ScriptError:
        return None
