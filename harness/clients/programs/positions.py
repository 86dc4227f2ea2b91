"""Wait until a program has read all of its input, and its output has stopped growing."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.clients.client_config import Settings, consumer
from highwater.harness.clients.groups.final_offsets import committed_offsets
from highwater.harness.runs.history import READ_UNCOMMITTED
from highwater.harness.runs.plan import Plan, ProgramPlan

STILL_S: Final = 3.0
"""If outputs may be missing: the wait ends if no output came for this many seconds after the last
input."""

FULL_S: Final = 1.0
"""If all inputs have their outputs: the wait ends if no output came for this many seconds."""

TOTAL_LIMIT_S: Final = 300.0
"""The limit, in seconds, of the wait for a program that still makes progress."""

_ASK_S: Final = 5.0
EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - that is its public name
_LOOK_S: Final = 0.2


class Progress(NamedTuple):
    """The progress of a program.

    Attributes:
        committed: the group's offset in each input partition; None if the group has no offset.
        ends: the end offset of each input partition.
        written: the number of outputs.
    """

    committed: Mapping[int, int | None]
    ends: Mapping[int, int]
    written: int

    @property
    def behind(self) -> dict[int, int | None]:
        """Partition to committed offset, for the partitions whose end the group has not reached."""
        return {
            partition: self.committed.get(partition)
            for partition, end in self.ends.items()
            if end and (self.committed.get(partition) or 0) < end
        }

    @property
    def done(self) -> int:
        """The sum of the committed offsets. If the group has no commits, the number of outputs."""
        return sum(offset or 0 for offset in self.committed.values()) or self.written

    def needed(self, outputs: int) -> int:
        """Return the number of outputs that all inputs need."""
        return sum(self.ends.values()) * outputs


class StoodStill:
    """A condition for ``await_condition``: the program has reached its end, or is stuck.

    Args:
        outputs: the greatest number of outputs of an input.
        limit_s: seconds without progress after which the wait ends.

    Attributes:
        at_end: whether the program has reached the end of its input, and its output has stopped
            growing.
    """

    def __init__(
        self, outputs: int, limit_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._outputs, self._limit_s, self._clock = outputs, limit_s, clock
        self._last: Progress | None = None
        self._changed_at = self._moved_at = clock()
        self._done = 0
        self.at_end = False

    def __call__(self, seen: Progress) -> bool:
        """Return whether the program has reached its end, or made no progress for ``limit_s``."""
        now = self._clock()
        if seen != self._last:
            self._last, self._changed_at = seen, now
        if seen.done > self._done:
            self._done, self._moved_at = seen.done, now
        full = seen.written >= seen.needed(self._outputs)
        enough_s = FULL_S if full else STILL_S
        self.at_end = not seen.behind and now - self._changed_at >= enough_s
        return self.at_end or now - self._moved_at >= self._limit_s


class WorkDone:
    """Counts a program's outputs and committed offsets. Not thread-safe.

    Args:
        settings: settings for a client that has the program's group, but does not join it.
        printed: returns the number of outputs that the program has printed, for a program without
            an output topic.
    """

    def __init__(
        self, plan: Plan, program: ProgramPlan, settings: Settings, printed: Callable[[], int]
    ) -> None:
        self._plan, self._program, self._printed = plan, program, printed
        self._client = Consumer({**settings, "isolation.level": READ_UNCOMMITTED})

    def __call__(self) -> int | None:
        """Return the number of outputs plus committed offsets; None if brokers do not respond."""
        plan = self._plan
        partitions = [TopicPartition(plan.topic.name, n) for n in range(plan.topic.partitions)]
        try:
            outputs = _written(plan, self._program, self._client) or self._printed()
            if plan.without_input:
                return outputs  # a request for a group would create __consumer_offsets
            positions = committed_offsets(self._client.committed(partitions, timeout=_ASK_S))
        except (KafkaException, NotYetError):
            return None
        return outputs + sum(offset or 0 for offset in positions.values())

    def close(self) -> None:
        """Close the client."""
        self._client.close()


def await_end(
    plan: Plan, program: ProgramPlan, settings: Settings, printed: Callable[[], int], limit_s: float
) -> list[str]:
    """Wait until the group has committed each partition's end offset, and outputs are complete.

    Args:
        settings: settings for a client that has the program's group, but does not join it.
        printed: returns the number of outputs that the program has printed, for a program without
            an output topic.
        limit_s: seconds without progress after which the wait ends.

    Returns:
        Sentences about problems. With a problem, missing outputs do not prove an error of the
            program. Inputs that the group did not reach are no problem, because the judge finds
            them.
    """
    client = Consumer({**settings, "isolation.level": READ_UNCOMMITTED})
    reader = Consumer({**settings, "enable.partition.eof": True})
    still = StoodStill(program.outputs, limit_s)
    try:
        seen = await_condition(
            lambda: _progress(plan, client, reader, _written(plan, program, client) or printed()),
            still,
            what=f"group {plan.group} to commit the end of {plan.topic.name}",
            limit_s=max(limit_s, TOTAL_LIMIT_S),
            every_s=_LOOK_S,
            passing=(KafkaException,),
        )
    except WaitTimeoutError as error:
        if not isinstance(error.seen, Progress):
            return [error.message]
        seen = error.seen
    finally:
        client.close()
        reader.close()
    return [] if still.at_end else _why(plan, program, settings, seen, limit_s)


def log_ends(client: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """Return the end offset of each partition for the client's isolation level.

    Raises:
        NotYetError: a leader did not return the end offset.
        KafkaException: the request for an end offset failed.
    """
    ends = {}
    for partition in range(partitions):
        bounds = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ASK_S)
        if bounds is None:
            raise NotYetError(f"the leader of {topic}-{partition} does not return its end offset")
        ends[partition] = bounds[1]
    return ends


def _written(plan: Plan, program: ProgramPlan, client: Consumer) -> int:
    ends = log_ends(client, program.out, plan.topic.partitions) if program.out else {}
    return sum(ends.values())


def _progress(plan: Plan, client: Consumer, reader: Consumer, written: int) -> Progress:
    topic = plan.topic
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    committed = committed_offsets(client.committed(partitions, timeout=_ASK_S))
    ends = log_ends(client, topic.name, topic.partitions)
    if plan.workload.transactions:
        ends = {
            p: _last_end(reader, topic.name, p, committed.get(p), end) for p, end in ends.items()
        }
    return Progress(committed, ends, written)


def _last_end(reader: Consumer, topic: str, partition: int, position: int | None, end: int) -> int:
    """Return the offset that the group must commit to reach the partition's end.

    This is ``position`` if only transaction markers and aborted records follow, otherwise ``end``.
    """
    if position is None or position >= end:
        return end
    reader.assign([TopicPartition(topic, partition, position)])
    messages = reader.consume(1, _ASK_S)
    reader.unassign()
    error = messages[0].error() if messages else None
    return position if error is not None and error.code() == EOF else end


def _why(
    plan: Plan, program: ProgramPlan, settings: Settings, seen: Progress, limit_s: float
) -> list[str]:
    if all(offset is None for offset in seen.committed.values()):
        if seen.written >= seen.needed(program.outputs):
            return []  # the program stores its positions elsewhere
        never = f"Group {plan.group} has committed no offset in {plan.topic.name}"
        return [f"{never}: {_instead(plan, settings)}."]
    if not seen.behind:
        output = program.out or "The program's printed output"
        return [f"{output} still grew after {limit_s:g} s."]
    return []


def _instead(plan: Plan, settings: Settings) -> str:
    """Return a likely reason why the program has committed no offset of its input topic."""
    nothing = "no sign that the program reads this topic with the group HIGHWATER_GROUP"
    of_consumers = consumer({})
    with suppress(KafkaException):
        admin = AdminClient({k: v for k, v in settings.items() if k not in of_consumers})
        if topics := _topics(admin, plan.group):
            return f"the group has committed offsets in {', '.join(topics)}"
        members = admin.describe_consumer_groups([plan.group], request_timeout=_ASK_S)
        assigned = {
            place.topic
            for member in members[plan.group].result().members
            for place in member.assignment.topic_partitions
        }
        if plan.topic.name in assigned:
            return "the program reads the topic, but commits no offset"
        if assigned:
            return f"the program reads {', '.join(sorted(assigned))}"
        listed = () if plan.external else admin.list_consumer_groups(request_timeout=_ASK_S)
        others = [group.group_id for group in listed.result().valid] if listed else []
        for group in others:
            if plan.topic.name in _topics(admin, group):
                return f"the program uses the group {group} instead of HIGHWATER_GROUP"
    return nothing


def _topics(admin: AdminClient, group: str) -> list[str]:
    offsets = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=_ASK_S
    )
    return sorted({place.topic for place in offsets[group].result().topic_partitions})
