"""Whether a run ended as its story, its release and its settings say that it must."""

from clusters.versions import release
from harness.store import Run
from harness.verdict import UNKNOWN, Verdict
from nemesis.stories import find_story


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
