"""Make the plan of a run from its story or its random faults, with the given settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs import parse_values
from highwater.harness.runs.options import options_of, with_options
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.programs.run_records import write_feed

_OF_STORIES = ("duration", "record_bytes")
"""Settings that a story decides."""

_OF_READERS: Final = frozenset(
    (
        *("read_only", "kafka", "cluster", "nemesis", "duration", "seed", "budget", "overlap"),
        *("calm", "max_recovery", "consumers", "isolation", "churn"),
    )
)
"""Settings of plans that only read."""

_OF_APPS: Final = Plan(
    kafka=MODERN,
    topic=Topic(partitions=3),
    workload=PROGRAM_WORKLOAD,
    nemesis=("app-cut", "app-pause", "app-refuse-outputs", "app-kill=3", "app-stop"),
    duration_s=40.0,
    wire_clients=True,
)
"""The default faults for programs. Kills find most mistakes of programs; each other fault finds
mistakes that kills do not find (docs/results.md). The weights allow for the group's wait after a
fault: for a killed member it may wait until the session timeout."""

_OF_OWN_BROKERS: Final = frozenset({"app-cut", "app-refuse-outputs"})
"""Default faults that need the relay, or that change a topic's settings."""


def requested_plan(given: Mapping[str, object], base: Plan | None = None) -> Plan:
    """Return the plan of a run from its settings.

    Args:
        given: settings by name, as text or as values; ``kafka`` is required.
        base: a plan with the settings that are not given; by default the story's plan, or else a
            plan of random faults.

    Raises:
        UsageError: the story does not exist, or a value does not fit its setting.
    """
    name = given.get("story") or (base and base.story)
    story = find_story(str(name)) if name else None
    if story is not None:
        given = {name: value for name, value in given.items() if name not in _OF_STORIES}
    if base is None:
        kafka = str(given["kafka"])
        random = Plan(kafka=kafka, topic=Topic(partitions=3), duration_s=30.0)
        base = story.plan(kafka) if story else random
    plan = with_options(base, given)
    topic, workload = plan.topic, plan.workload
    if plan.read_only:
        refuse_writers(given)
        workload = replace(workload, producers=0)
    if "brokers" in given:
        replicas = story.replicas(plan.brokers) if story else plan.brokers
        topic = replace(topic, replication_factor=replicas)
        plan = replace(plan, brokers=max(plan.brokers, story.brokers if story else 0))
    if "group_protocol" in given:
        group = parse_values.group(workload.subscribe, workload.group_protocol)
        workload = replace(workload, **group)
    workload = replace(workload, idempotence=workload.idempotence or workload.transactions)
    return with_settings(replace(plan, topic=topic, workload=workload))


def refuse_writers(given: Mapping[str, object]) -> None:
    """Raise an error for settings of a plan that only reads: for clients that write, and topics.

    Raises:
        UsageError: the message names the option.
    """
    for name in given:
        if name not in _OF_READERS:
            option = options_of(Plan)[name].names(name)[0].partition("/")[0]
            raise UsageError(
                f"{option} is not possible with --read-only, which starts only readers and faults",
                hint=f"Leave {option} out.",
            )


def requested_app(
    command: Sequence[str],
    given: Mapping[str, object],
    *,
    topic: str | None = None,
    out: str | None = None,
) -> Plan:
    """Return the plan of a run with a program under test.

    By default the topics are ``in`` and ``out``. If only one topic is given, there is no other.

    Args:
        given: settings of ``Plan`` and of ``ProgramPlan`` by name, as text or as values.
        topic: the program's input topic.
        out: the program's output topic.

    Raises:
        UsageError: a value does not fit its setting, or the run in ``feed`` has no records.
        StoreError: the directory in ``feed`` is no run directory.
    """
    of_program = {name: value for name, value in given.items() if name in options_of(ProgramPlan)}
    plan = with_options(
        _OF_APPS, {name: value for name, value in given.items() if name not in of_program}
    )
    program = with_options(
        ProgramPlan(command=tuple(command), out=out or ("" if topic else "out")), of_program
    )
    if "nemesis" not in given:
        impossible = set(() if program.out else ("app-refuse-outputs",))
        impossible |= set(() if plan.wire_clients else _OF_OWN_BROKERS)
        words = tuple(word for word in plan.nemesis if word not in impossible)
        plan = replace(plan, nemesis=words)
    if program.feed:
        path = Path(program.feed).absolute()
        file = write_feed(Store(path.parent).open(path.name)) if path.is_dir() else path
        program = replace(program, feed=str(file))
    read = replace(plan.topic, name=topic or "in", replication_factor=plan.brokers)
    idempotence = plan.workload.acks == "all" and release(plan.kafka).idempotence
    workload = replace(plan.workload, idempotence=idempotence)
    if out and not topic:
        workload = replace(workload, producers=0)
    return replace(plan, topic=read, workload=workload, program=program)
