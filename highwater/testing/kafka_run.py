"""The fixture ``kafka_run``: performs a story, a nemesis or a plan for the test's case."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from msgspec.structs import replace

from highwater.harness.base.errors import HighwaterError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Acks, Plan, Topic
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.testing.parametrize import Case
from highwater.testing.results import Result

if TYPE_CHECKING:
    from highwater.testing.session import Laboratory


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
        wire_clients: whether clients reach the brokers through the wire; by default they do not.
        controllers: KRaft controllers, or ZooKeepers of an ensemble: 1, 3 or 5; by default 1.
        trace_flushes: whether the flushes of brokers' files are traced; by default they are not.
        log_dirs: log directories of each broker, 1 to 9; by default 1.
        racks: racks of brokers and readers, who fetch from a follower in theirs; by default 0.
        client: library of the producers: ``"librdkafka"``, ``"java"``, ``"java:3.9.2"``,
            ``"kafka-python"`` or ``"aiokafka"``; by default librdkafka, or what the story is about.
        reader_client: library of the readers, and of the members of a group; by default librdkafka.
        keys: keys of the records, on a compacted topic; by default 0: they have none.
        tiered: whether brokers have a remote tier; by default they do not.
        group_protocol: of a group of three readers beside a nemesis: ``"classic"`` or
            ``"consumer"``; by default there is no group.
    """

    story: str
    nemesis: str | Sequence[str]
    duration: str | float
    seed: int
    acks: Acks
    min_isr: int
    unclean: bool
    wire_clients: bool
    controllers: int
    trace_flushes: bool
    log_dirs: int
    racks: int
    client: str
    reader_client: str
    keys: int
    tiered: bool
    group_protocol: str


class KafkaRun:
    """Performs runs on real brokers, and judges them. One per test; call it as often as needed.

    Args:
        case: the release and settings for which the test runs now.
        laboratory: returns the session's laboratory, which is created at its first use.
        note: called with every judged run.
    """

    def __init__(
        self, case: Case, laboratory: "Callable[[], Laboratory]", note: Callable[[Result], None]
    ) -> None:
        self.case = case
        self._laboratory = laboratory
        self._note = note

    def __repr__(self) -> str:
        return f"<kafka_run for {self.case.id} on {self.case.driver}>"

    def __call__(
        self, plan: Plan | None = None, *, check: bool = True, **words: Unpack[RunArguments]
    ) -> Result:
        """Perform a run and judge it.

        Args:
            plan: performed as it stands; or else
            words: ``story="loss"``, or ``nemesis="kill,pause", duration="20s", seed=7``, and
                ``acks``, ``min_isr`` and ``unclean`` where they differ from the case's, and
                ``controllers=3``, or ``wire_clients=True`` for faults of clients and messages.
            check: whether a broken promise fails the test. Without it the result is returned, to
                be examined.

        Raises:
            PromiseBroken: the verdict is ``invalid``, and ``check`` is on.
            CannotJudge: the verdict is ``unknown``; an error of the test, whatever ``check`` is.
            HighwaterError: the harness could not do it; an error of the test too.
        """
        __tracebackhide__ = True
        try:
            result = Result(self._laboratory().perform(self._ready(plan, words)))
        except HighwaterError as error:
            raise error.with_traceback(None) from None  # its message says it all
        self._note(result)
        if check:
            result.assert_as_promised()
        result.assert_judged()
        return result

    def plan(self, **words: Unpack[RunArguments]) -> Plan:
        """Return the plan of a run for this case; change it with ``msgspec.structs.replace``.

        Raises:
            UsageError: neither a story nor a nemesis is named, or an unknown one.
        """
        return make(self.case, **words)

    def _ready(self, plan: Plan | None, words: RunArguments) -> Plan:
        if plan is None:
            return self.plan(**words)
        if words:
            raise UsageError(
                f"kafka_run is given a plan and {', '.join(words)}",
                hint="Put it into the plan: kafka_run(kafka_run.plan(…)).",
            )
        case = self.case
        if (plan.kafka, plan.driver) != (case.kafka, case.driver):
            raise UsageError(
                f"the plan is for Kafka {plan.kafka} on {plan.driver}, and this test runs for"
                f" Kafka {case.kafka} on {case.driver}",
                hint="Make it with kafka_run.plan(…), or from the fixture highwater_case.",
            )
        return plan


def make(case: Case, **words: Unpack[RunArguments]) -> Plan:
    """Return the plan of a run for a case."""
    from highwater.nemesis.stories.registry import STORIES, find_story  # noqa: PLC0415 - imports brokers' clients

    arguments = RunArguments.__annotations__
    if unknown := [word for word in words if word not in arguments]:
        raise UsageError(
            f"kafka_run has no argument {unknown[0]!r}",
            hint=nearest(unknown[0], [*arguments, "check"]),
        )
    if "story" not in words and "nemesis" not in words:
        raise UsageError(
            "kafka_run has neither a story nor a nemesis",
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
    acks = parse_values.acks(str(words.get("acks", case.acks)))
    plan = replace(
        base,
        driver=case.driver,
        seed=words.get("seed", 0),
        wire_clients=words.get("wire_clients", base.wire_clients),
        controllers=words.get("controllers", base.controllers),
        trace_flushes=words.get("trace_flushes", False),
        log_dirs=words.get("log_dirs", base.log_dirs),
        racks=words.get("racks", base.racks),
        client=words.get("client", base.client),
        reader_client=words.get("reader_client", base.reader_client),
        nemesis=parse_values.nemesis(faults if isinstance(faults, str) else ",".join(faults)),
        topic=topic,
        workload=replace(
            base.workload,
            acks=acks,
            keys=words.get("keys", 0),
            **parse_values.group(base.workload.subscribe, words.get("group_protocol")),
        ),
        tiered=words.get("tiered", base.tiered),
    )
    return with_settings(plan)
