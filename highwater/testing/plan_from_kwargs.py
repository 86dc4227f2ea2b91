"""Builds a plan from the keyword arguments of ``kafka_run``."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from msgspec.structs import replace

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Acks, Plan, Topic
from highwater.nemesis.stories.registry import STORIES, find_story
from highwater.testing.parametrize import Case


class RunArguments(TypedDict, total=False):
    """Keyword arguments of a run; settings that are not given are those of the test's case.

    Attributes:
        story: name of a scripted schedule.
        nemesis: faults that a random schedule mixes: ``"kill,pause"``, a list, or ``"none"``.
        duration: length of a random schedule, in seconds or as ``"20s"``; by default 30 s.
        seed: seed of every random choice; by default 0.
        acks: acknowledgements that producers wait for.
        min_isr: min.insync.replicas.
        unclean: whether unclean elections are allowed.
    """

    story: str
    nemesis: str | Sequence[str]
    duration: str | float
    seed: int
    acks: Acks
    min_isr: int
    unclean: bool


def make(case: Case, **words: Unpack[RunArguments]) -> Plan:
    """Return the plan of a run for a case."""
    if "story" not in words and "nemesis" not in words:
        raise UsageError(
            "kafka_run is told neither a story nor a nemesis",
            hint=f'Write kafka_run(nemesis="kill,pause"), or name a story. {nearest("", STORIES)}',
        )
    if "story" in words:
        base = find_story(words["story"]).plan(case.kafka)
    else:
        duration_s = parse_values.duration(str(words.get("duration", "30s")))
        base = Plan(kafka=case.kafka, topic=Topic(partitions=3), duration_s=duration_s)
    faults = words.get("nemesis", "none")
    topic = replace(
        base.topic,
        min_insync_replicas=words.get("min_isr", case.min_isr),
        unclean_leader_election=words.get("unclean", case.unclean),
    )
    return replace(
        base,
        driver=case.driver,
        seed=words.get("seed", 0),
        nemesis=parse_values.nemesis(faults if isinstance(faults, str) else ",".join(faults)),
        topic=topic,
        workload=replace(base.workload, acks=parse_values.acks(str(words.get("acks", case.acks)))),
    )
