"""The catalogue agrees with the model: its releases with the rules, its conditions with stories."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import pytest

from highwater.checkers.hazards.catalogue import BY_ID, HAZARDS, find_hazard
from highwater.checkers.hazards.conditions import END, AnyOf, JavaReleases, Releases
from highwater.checkers.hazards.evaluate import command, evaluate
from highwater.checkers.model.protocol.rules_by_release import Rules, rules_of
from highwater.checkers.model.transactions.transaction_rules import (
    CLIENTS,
    TRANSACTION_RELEASES,
    TransactionRules,
    transaction_rules_of,
)
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.releases.cluster_facts import TopicFacts
from highwater.harness.runs.plan import Acks
from highwater.nemesis.stories.registry import STORIES, find_story
from tests.unit.checkers.hazards.clusters import cluster, topic

DOCS = Path(__file__).parents[4] / "docs"
COUNTEREXAMPLES = DOCS / "counterexamples"
RULES: Final[dict[str, Callable[[Rules], bool]]] = {
    "elected-again": lambda rules: rules.kraft and not rules.elected_again_is_new,
    "KIP-101": lambda rules: not rules.epochs,
    "KIP-279": lambda rules: rules.epochs and not rules.below_first_is_empty,
    "KAFKA-6857": lambda rules: rules.epochs and not rules.no_epochs_is_undefined,
    "KAFKA-9338": lambda rules: rules.epochs and not rules.fenced_fetches,
    "KAFKA-7415": lambda rules: rules.epochs and not rules.epoch_on_election,
    "KAFKA-7164": lambda rules: rules.epochs and not rules.cut_on_missed_epoch,
    "KAFKA-7128": lambda rules: rules.epochs and not rules.join_from_epoch_start,
    "KAFKA-13141": lambda rules: rules.cut_on_fetch and not rules.diverging_is_no_progress,
    "KAFKA-18991": lambda rules: rules.cut_on_fetch and not rules.late_fenced,
    "KAFKA-14139": lambda rules: rules.async_isr and not rules.joins_by_broker_epoch,
    "removed-but-eligible": lambda rules: rules.elr and not rules.elr_of_replicas,
    "empty-last-leader": lambda rules: rules.elr and rules.unclean_start_leaves,
}
"""The rules of the model by which a release has a hazard."""

TRANSACTION_RULES: Final[dict[str, Callable[[TransactionRules], bool]]] = {
    "KAFKA-17754": lambda rules: not rules.bumps_epoch,
    "KAFKA-19446": lambda rules: not rules.marker_above,
    "KAFKA-14402": lambda rules: not rules.verification,
    "late-copy": lambda rules: (
        rules.lowest_sequence and not (rules.copy_is_not_lowest or rules.bumps_epoch)
    ),
    "reused-sequence": lambda rules: rules.purges_unanswered,
    "late-produce": lambda rules: rules.purges_unanswered,
}
"""The same of transactions, by release and client."""

NO_HAZARDS: Final = {
    "damaged-checkpoints": "availability",
    "forgotten-voters": "availability",
    "frozen-isr": "availability",
    "torn-files": "availability",
    "duplicates": "duplicates",
    "unfenced-loops": "duplicates",
    "leaders-from-memory": "unseen",
    "cancelled-reassignment": "operator",
    "pending-error": "hangs",
    "no-first-position": "program",
    "passed-in-work": "program",
    "read-again": "program",
    "stale-buffer": "program",
    "unconfirmed-commit": "franz-go",
}
"""Pages in docs/findings that no hazard has, and why in one word."""

LOSSES: Final = {
    "power-failure": {"last-replica", "no-elr-before-4.0", "upgrade-without-elr"},
    "unclean": {"unclean-election"},
    "leader-kill": {"acks-1"},
}
"""Each story, and the hazards by which it loses its record."""


ANSWERED: Final[tuple[Acks, ...]] = ("1", "all")


def losing(facts_of: object, acks: Acks = "all", *names: str) -> set[str]:
    return {
        advice.hazard.id
        for advice in evaluate(facts_of, {"acks": acks, "power": "separate"})  # type: ignore[arg-type]
        if advice.status == "can lose" and (not names or advice.hazard.id in names)
    }


def wide(settings: Mapping[str, str]) -> TopicFacts:
    """A topic of two partitions: the first is spared by some hazards."""
    return replace(topic(settings=settings), partitions=2)


def bounded(condition: object) -> bool:
    """Whether a condition, or one that it consists of, begins or ends with a release."""
    if isinstance(condition, AnyOf):
        return any(bounded(part) for every in condition.alternatives for part in every)
    return isinstance(condition, Releases | JavaReleases)


def test_each_bound_of_releases_names_kafkas_source() -> None:
    without = {
        each.id for each in HAZARDS if any(map(bounded, each.conditions)) and not each.source
    }
    assert not without


def test_a_release_has_the_hazards_of_its_rules() -> None:
    for hazard, kafka in product(RULES, CATALOGUE):
        old = {"message.format.version": "0.10.2"} if hazard == "KAFKA-6857" else {}
        facts = cluster(kafka, wide(settings=old))
        assert (hazard in losing(facts)) == RULES[hazard](rules_of(kafka)), (hazard, kafka)


def test_transactions_have_the_hazards_of_their_rules() -> None:
    for kafka, client in product(TRANSACTION_RELEASES, CLIENTS):
        second = client == "java" and release(kafka).number >= (4, 0)
        facts = cluster(kafka, features={"transaction.version": 2 if second else 1})
        library = client.removesuffix("-v1")
        answers = {"acks": "all", "power": "safe", "transactions": library}
        found = {advice.hazard.id: advice.status for advice in evaluate(facts, answers)}
        for hazard, has in TRANSACTION_RULES.items():
            expected = has(transaction_rules_of(kafka, client))
            assert (found[hazard] == "can lose") == expected, (hazard, kafka, client)


def test_an_old_protocol_has_the_hazards_of_its_rules() -> None:
    """Up to KIP-101 itself: with an old protocol that hazard is called old-protocol."""
    for hazard, kafka in product(RULES, ["0.11.0.2", "1.1.1", "2.4.1", "2.8.0"]):
        old = {"message.format.version": "0.10.2"} if hazard == "KAFKA-6857" else {}
        facts = cluster(kafka, wide(settings=old), protocol="0.10.2")
        name = "old-protocol" if hazard == "KIP-101" else hazard
        assert (name in losing(facts)) == RULES[hazard](rules_of(kafka, protocol="0.10.2")), (
            hazard,
            kafka,
        )


@pytest.mark.parametrize("kafka", CATALOGUE)
def test_conditions_are_those_under_which_the_model_loses(kafka: str) -> None:
    for min_isr, unclean, acks, story in product([1, 2], [False, True], ANSWERED, LOSSES):
        played = find_story(story)
        if played.why_not(release(kafka)) or min_isr > played.min_isr_most:
            continue
        plan = played.plan(kafka, acks=acks, unclean=unclean)
        wanted = msgspec.structs.replace(plan.topic, min_insync_replicas=min_isr)
        plan = msgspec.structs.replace(plan, topic=wanted)
        facts = cluster(
            kafka,
            topic(
                settings={
                    "min.insync.replicas": str(min_isr),
                    "unclean.leader.election.enable": str(unclean).lower(),
                }
            ),
        )
        lost = bool(played.predict(release(kafka), plan).lost)
        assert bool(losing(facts, acks, *LOSSES[story])) == lost, (min_isr, unclean, acks, story)


@pytest.mark.parametrize("written", ["", "0.10.2"])
@pytest.mark.parametrize(
    ("kafka", "protocol"),
    [
        *((name, "") for name in CATALOGUE),
        *((name, "0.10.2") for name in ("0.11.0.3", "1.1.1", "2.0.1", "2.1.1", "2.8.2", "3.3.2")),
        ("3.3.2", "2.8"),
    ],
)
def test_old_levels_lose_where_the_model_does(kafka: str, protocol: str, written: str) -> None:
    entry = release(kafka)
    if entry.coordination == "kraft" or (entry.number >= (3,) and not protocol):
        return  # these ignore the format
    played = [find_story(name) for name in ("loss", "held-fetch")]
    lost = any(
        story.predict(
            entry, msgspec.structs.replace(story.plan(kafka), protocol=protocol, format=written)
        ).lost
        for story in played
    )
    settings = {"message.format.version": written} if written else {}
    facts = cluster(kafka, topic(settings=settings), protocol=protocol)
    assert bool(losing(facts, "all", "KIP-101", "old-protocol", "old-format")) == lost


def test_names_are_unique_and_what_shows_a_hazard_is_there() -> None:
    assert len(BY_ID) == sum(1 + len(hazard.aliases) for hazard in HAZARDS)
    for hazard in HAZARDS:
        words = hazard.command.split()
        if "--story" in words:
            assert words[words.index("--story") + 1] in STORIES
        if hazard.evidence == "replay":
            assert hazard.counterexample in words
            assert (COUNTEREXAMPLES / hazard.counterexample).exists()
        assert hazard.played_on in CATALOGUE
    assert find_hazard("KAFKA-12670").id == "unclean-election"
    with pytest.raises(UsageError, match="no hazard is called 'KIP-102'"):
        find_hazard("KIP-102")


def test_each_finding_is_about_a_hazard_or_says_why_not() -> None:
    linked = {page for hazard in HAZARDS for page in hazard.findings}
    assert not linked & {*NO_HAZARDS}
    pages = {page.stem for page in (DOCS / "findings").glob("*.md")}
    assert linked | {*NO_HAZARDS} == pages


def test_what_the_newest_release_has_comes_first_and_then_what_ended_last() -> None:
    newest = [hazard for hazard in HAZARDS if hazard.end == END]
    assert list(HAZARDS[: len(newest)]) == newest
    assert sorted((hazard.end for hazard in HAZARDS), reverse=True) == [
        hazard.end for hazard in HAZARDS
    ]
    years = [hazard.year for hazard in newest]
    assert years == sorted(years, reverse=True)


@pytest.mark.parametrize(
    ("name", "introduced", "fixed", "end"),
    [
        ("KAFKA-18991", ("2.8", "4.0"), ("3.9.1", "4.0.1"), (4, 0, 1)),
        ("KAFKA-14139", ("2.7", "3.3"), ("3.5", "4.0"), (4, 0)),
        ("KAFKA-19012", ("2.8", "4.0", "4.1"), ("3.9.2", "4.0.2", "4.1.2"), (4, 1, 2)),
        ("KIP-101", (), ("0.11",), (0, 11)),
        ("elected-again", ("3.3",), (), END),
        ("acks-1", (), (), END),
        ("KIP-320", (), (), END),
    ],
)
def test_the_releases_that_began_and_ended_a_hazard_follow_from_its_conditions(
    name: str, introduced: tuple[str, ...], fixed: tuple[str, ...], end: tuple[int, ...]
) -> None:
    hazard = find_hazard(name)
    assert (hazard.introduced, hazard.fixed, hazard.end) == (introduced, fixed, end)


def test_a_command_names_the_release_of_the_cluster_where_it_can_be_played() -> None:
    for kafka in CATALOGUE:
        words = command(find_hazard("acks-1"), cluster(kafka)).split()
        assert words[words.index("--kafka") + 1] == kafka, kafka
