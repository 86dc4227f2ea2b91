"""Find settings and releases that would have prevented an anomaly, by the model's causal chains.

Only anomalies that the model explains get advice, and only if a setting or another release prevents
a link of the causal chain.
"""

from collections.abc import Iterator
from typing import Final

from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, rules_of
from highwater.checkers.model.report_types import ModelFinding, Reconciliation
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan
from highwater.reports.model_text import rule_says

_TWO: Final = 2  # with a lower min ISR, no broker outside the ISR is eligible as leader (KIP-966)
_HARM: Final = frozenset({"lost-write", "divergence", "vanished"})

_SETTINGS: Final = {
    "acks=0": "acks=all: a record is then acknowledged when every in-sync replica has it.",
    "acks=1": "acks=all: a record is then acknowledged when every in-sync replica has it.",
    "unclean": (
        "unclean.leader.election.enable=false: the partition would have waited for a replica "
        "with the record."
    ),
}


def prevention(plan: Plan, reconciliation: Reconciliation | None) -> tuple[str, ...]:
    """Return remedies as sentences, the easiest first; empty if no anomaly was explained."""
    if reconciliation is None or plan.played_on not in RELEASES:
        return ()
    harmed = [
        finding
        for finding in reconciliation.findings
        if finding.kind in _HARM and finding.verdict == "explained"
    ]
    return tuple(dict.fromkeys(remedy for finding in harmed for remedy in _of(plan, finding)))


def _of(plan: Plan, finding: ModelFinding) -> Iterator[str]:
    rules = dict.fromkeys(link.rule for link in finding.because)
    yield from (_SETTINGS[rule] for rule in rules if rule in _SETTINGS)
    now = rules_of(plan.played_on, protocol=plan.protocol, written=plan.format)
    for rule in rules:
        if rule not in SWITCHES or getattr(now, rule):
            continue
        says = rule_says(rule)
        if getattr(rules_of(plan.played_on), rule):
            yield (
                f"Kafka {plan.played_on}'s own inter.broker.protocol.version and"
                f" log.message.format.version. {says}"
            )
        elif releases := _releases_with(rule, plan.played_on):
            alone = rule == "elr" and plan.topic.min_insync_replicas < _TWO
            with_ = ", with min.insync.replicas=2" if alone else ""
            yield f"Kafka {releases}{with_}. {says}"


def _releases_with(rule: str, kafka: str) -> str:
    """Return the releases with a rule: ``2.8.1 or later, except 3.0.0``; empty if there are none.

    An exception is possible, because a new release line may get a fix later than an older line.
    """
    names = list(RELEASES)
    later = names[names.index(kafka) + 1 :]
    first = next((name for name in later if getattr(rules_of(name), rule)), None)
    if first is None:
        return ""
    newer = [name for name in later if release(name).number > release(first).number]
    without = [name for name in newer if not getattr(rules_of(name), rule)]
    return f"{first} or later{', except ' if without else ''}{', '.join(without)}"
