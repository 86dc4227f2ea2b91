"""The catalogue agrees with the model: its releases with the rules, its conditions with stories."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import pytest

from highwater.checkers.hazards.catalogue import BY_ID, HAZARDS, find_hazard
from highwater.checkers.hazards.conditions import AnyOf, JavaReleases, Releases
from highwater.checkers.hazards.evaluate import command, evaluate
from highwater.checkers.model.protocol.rules_by_release import Rules, rules_of
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.runs.plan import Acks
from highwater.nemesis.stories.registry import STORIES, find_story
from tests.unit.checkers.hazards.clusters import cluster, topic

COUNTEREXAMPLES = Path(__file__).parents[4] / "docs" / "counterexamples"
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
}
"""The rules of the model by which a release has a hazard."""

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
        facts = cluster(kafka, topic(settings=old))
        assert (hazard in losing(facts)) == RULES[hazard](rules_of(kafka)), (hazard, kafka)


def test_an_old_protocol_has_the_hazards_of_its_rules() -> None:
    """Up to KIP-101 itself: with an old protocol that hazard is called old-protocol."""
    for hazard, kafka in product(RULES, ["0.11.0.2", "1.1.1", "2.4.1", "2.8.0"]):
        old = {"message.format.version": "0.10.2"} if hazard == "KAFKA-6857" else {}
        facts = cluster(kafka, topic(settings=old), protocol="0.10.2")
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


def test_a_command_names_the_release_of_the_cluster_where_it_can_be_played() -> None:
    for kafka in CATALOGUE:
        words = command(find_hazard("acks-1"), cluster(kafka)).split()
        assert words[words.index("--kafka") + 1] == kafka, kafka
