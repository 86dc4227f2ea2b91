"""Licences: the conditions under which an explanation of an anomaly is possible.

A licence is a condition on a switch of the model's rules, or on the run's release, settings, client
or faults. An explanation is used only if its licence holds in the run. Otherwise the anomaly stays
unexplained, and may be a bug of Kafka.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    Links,
    Row,
    not_known,
    refuse,
)
from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.hazards.catalogue import find_hazard
from highwater.checkers.hazards.evaluate import of_clients, of_release
from highwater.checkers.model.protocol.rules_by_release import Rules, old_format
from highwater.checkers.model.transactions.transaction_rules import TransactionRules
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import (
    AIOKAFKA,
    DRIVER,
    KAFKA_PYTHON,
    read_client,
)
from highwater.harness.releases.release import Release

_NEW_SETS: Final = (0, 11)


Holds: TypeAlias = Callable[[RunTraces, int | None], bool]
"""A function that returns whether a licence holds in a run at a time; None means any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """The condition under which an anomaly can happen in a run.

    Attributes:
        name: a switch of the model, or a fact in a few words.
        says: the sentence that tells the reader why the licence does not hold.
        holds: returns whether the licence holds on any broker. The function that finds the evidence
            checks which broker it was.
        switches: the switches of ``Rules`` and ``TransactionRules`` that decide; empty for a fact.
    """

    name: str
    says: str
    holds: Holds
    switches: tuple[str, ...] = ()

    def __or__(self, other: "Licence") -> "Licence":
        return self._with(other, "or", lambda run, at: self.holds(run, at) or other.holds(run, at))

    def __and__(self, other: "Licence") -> "Licence":
        return self._with(
            other, "and", lambda run, at: self.holds(run, at) and other.holds(run, at)
        )

    def _with(self, other: "Licence", word: str, holds: Holds) -> "Licence":
        return Licence(
            name=f"{self.name} {word} {other.name}",
            says=f"{self.says} {other.says}",
            switches=self.switches + other.switches,
            holds=holds,
        )


def lacks(switch: str) -> Licence:
    """Return a licence that holds if a broker's release, or the client, may lack a rule."""
    return Licence(
        name=f"{switch}: off",
        says=f"This release, with this client, has a rule against this: {_says(switch)}",
        switches=(switch,),
        holds=lambda run, at: run.software.may_lack(switch, at),
    )


def has(switch: str) -> Licence:
    """Return a licence that holds if a broker's release, or the client, may have a rule."""
    return Licence(
        name=switch,
        says=f"This release, with this client, lacks the rule that leads to this: {_says(switch)}",
        switches=(switch,),
        holds=lambda run, at: run.software.may_have(switch, at),
    )


def hazard_of_release(hazard: str) -> Licence:
    """Return a licence that holds if a known bug (``hazards.catalogue``) affects a release."""
    row = find_hazard(hazard)
    return of_releases(
        hazard, f"{hazard} does not affect this release.", lambda entry: of_release(row, entry)
    )


def of_releases(name: str, says: str, has_it: Callable[[Release], bool]) -> Licence:
    """Return a licence that holds if ``has_it`` is true for the release of a broker."""
    return Licence(
        name=name,
        says=says,
        holds=lambda run, at: any(has_it(release(ran.kafka)) for ran in run.software.at(at)),
    )


def hazard_of_clients(hazard: str) -> Licence:
    """Return a licence that holds if a known bug (``hazards.catalogue``) affects the client."""
    row = find_hazard(hazard)

    def holds(run: RunTraces, _: int | None) -> bool:
        brokers = run.plan.played_on
        return of_clients(row, read_client(run.plan.client, brokers), release(brokers))

    return Licence(name=hazard, says=f"{hazard} does not affect this client.", holds=holds)


def of_plan(name: str, says: str, holds: Callable[[RunTraces], bool]) -> Licence:
    """Return a licence that depends on the settings of a run."""
    return Licence(name=name, says=says, holds=lambda run, _: holds(run))


def _says(switch: str) -> str:
    """Return the sentence about a switch of the model. Its first letter is lower case."""
    rules = Rules if switch in Rules.__dataclass_fields__ else TransactionRules
    sentence = str(rules.__dataclass_fields__[switch].metadata["says"])
    return f"{sentence[:1].lower()}{sentence[1:]}"


C = TypeVar("C", bound=AnomalyCase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Generic[C]):
    """One cause of an anomaly: its licence, and the function that finds its evidence.

    Attributes:
        name: a switch of the model's rules, or a plain name.
        licence: the condition under which the cause is possible.
        says: the cause in a sentence.
        evidence: returns the explanation's links, in order of time; empty without evidence. It may
            return a chain instead, for example with the reason against this cause.
        applies: returns whether the explanation can apply to an anomaly.
        needs: the observations that the evidence needs.
    """

    name: str
    licence: Licence
    says: str
    evidence: Callable[[C], Links | Chain]
    applies: Callable[[C], bool]
    needs: frozenset[Observation]

    def may_explain(self, case: C) -> bool:
        """Return whether the licence holds at any time of the run, and the explanation applies."""
        return self.licence.holds(case.observed, None) and self.applies(case)

    def outcome(self, case: C) -> Chain:
        """Return the evidence as a chain, even if the licence does not hold."""
        evidence = self.evidence(case) if self.applies(case) else ()
        return evidence if isinstance(evidence, Chain) else Chain(links=evidence)

    def allows(self, case: C, outcome: Chain) -> bool:
        """Return whether the licence held at the time of the link with the explanation's name."""
        named = (link.time_ns for link in outcome.links if link.rule == self.name)
        return self.licence.holds(case.observed, next(named, None))

    def links(self, case: C) -> Links:
        """Return the explanation's links; empty if it does not explain the anomaly."""
        outcome = self.outcome(case) if self.may_explain(case) else Chain()
        return () if outcome.why_not or not self.allows(case, outcome) else outcome.links


def explains(
    name: str,
    licence: Licence,
    says: str,
    *,
    needs: frozenset[Observation] = frozenset(),
    applies: Callable[[Any], bool] = lambda _: True,
) -> Callable[[Callable[[C], Links | Chain]], Explanation[C]]:
    """Return a decorator that makes an ``Explanation`` from a function that finds evidence."""

    def explanation(evidence: Callable[[C], Links | Chain]) -> Explanation[C]:
        return Explanation(
            name=name, licence=licence, says=says, evidence=evidence, applies=applies, needs=needs
        )

    return explanation


def first(explanations: Sequence[Explanation[C]], case: C) -> Links:
    """Return the links of the first explanation with evidence; empty if none has evidence."""
    return next((links for rule in explanations if (links := rule.links(case))), ())


def if_observed(outcome: Chain, explanations: Iterable[Explanation[C]], case: C) -> Chain:
    """Return ``outcome``, or a "not known" chain if a possible explanation lacks observations.

    Args:
        outcome: the chain that was found. A chain that explains the anomaly is returned unchanged.
        explanations: the explanations that were tried.
        case: the anomaly.
    """
    needs = (rule.needs for rule in explanations if rule.may_explain(case))
    missing = case.observed.missing.intersection(chain.from_iterable(needs))
    return not_known(missing, *outcome.links) if outcome.why_not and missing else outcome


def _any_case(observed: RunTraces, anomaly: Row) -> AnomalyCase:
    return AnomalyCase(observed=observed, anomaly=anomaly)


@dataclass(frozen=True, slots=True)
class Explainer(Generic[C]):
    """The explanations of one kind of anomaly, as a function of a run and an anomaly.

    Attributes:
        explanations: the explanations, in the order in which they are tried.
        why_not: the reason if no explanation has evidence. It is empty if there is only one
            explanation, whose chain has its own reason.
        case: returns the case that the explanations need, or a chain with the reason for no case.
        always: returns links that the reader sees even without an explanation.
    """

    explanations: tuple[Explanation[C], ...]
    why_not: str = ""
    case: Callable[[RunTraces, Row], Any] = _any_case
    always: Callable[[Any], Links] = lambda _: ()

    def __call__(self, observed: RunTraces, anomaly: Row) -> Chain:
        """Explain an anomaly of a run."""
        case = self.case(observed, anomaly)
        if isinstance(case, Chain):
            return case
        outcome = self._first(case) if self.why_not else self.explanations[0].outcome(case)
        return if_observed(outcome, self.explanations, case)

    def _first(self, case: C) -> Chain:
        """Return the first explanation with evidence and licence; else a chain with a reason."""
        refused = []
        for rule in self.explanations:
            outcome = rule.outcome(case)
            if outcome.why_not:
                refused += [outcome] if rule.may_explain(case) else []
            elif outcome.links and rule.allows(case, outcome):
                return outcome
            elif outcome.links:
                refused.insert(0, refuse(rule.licence.says, *outcome.links))
        return refused[0] if refused else refuse(self.why_not, *self.always(case))


UNACKNOWLEDGED: Final = Licence(
    name="acks=0",
    says="A broker has acknowledged the record. Only with acks=0 no broker responds.",
    holds=lambda run, _: run.plan.workload.acks == "0",
)
LEADER_ALONE: Final = Licence(
    name="acks=0 or 1",
    says="With acks=all the leader waits for every member of the ISR.",
    holds=lambda run, _: run.plan.workload.acks != "all",
)
UNCLEAN: Final = Licence(
    name="unclean elections",
    says="Unclean elections are off: no replica outside the ISR may be elected.",
    holds=lambda run, _: run.elects_anybody,
)
FAULT: Final = Licence(
    name="an injected fault",
    says="The evidence is the fault itself.",
    holds=lambda _, __: True,
)
SEEN_TO_HAPPEN: Final = Licence(
    name="what the run shows",
    says="This may happen on every release.",
    holds=lambda _, __: True,
)
OLD_SETS: Final = Licence(
    name="message sets from before 0.11",
    says="Only message sets from before 0.11 are sent as one unit.",
    holds=lambda run, _: (
        any(software.number < _NEW_SETS for software in run.software.at(None))
        or old_format(run.plan.protocol, run.plan.format)
    ),
)
RESENT: Final = Licence(
    name="no idempotence",
    says="The record's producer is idempotent (KIP-98).",
    holds=lambda run, _: not run.plan.workload.idempotence,
)
NEW_EPOCH: Final = Licence(
    name="a new producer epoch",
    says="The record's producer is not idempotent (KIP-98).",
    holds=lambda run, _: run.plan.workload.idempotence,
)
PARTIAL: Final = Licence(
    name="kafka-python, aiokafka or a client driver",
    says="This client never commits a transaction in which the send of a record failed.",
    holds=lambda run, _: (
        read_client(run.plan.client, run.plan.played_on).library in {DRIVER, KAFKA_PYTHON, AIOKAFKA}
    ),
)
UNKNOWN_CLIENT: Final = Licence(
    name="a client driver",
    says="This client gives each record one sequence number, in order.",
    holds=lambda run, _: read_client(run.plan.client, run.plan.played_on).library == DRIVER,
)
