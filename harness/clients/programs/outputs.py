"""Read the output of a program under test with a read_committed reader."""

import time
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from highwater.harness.base.errors import UsageError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.programs.positions import EOF, log_ends
from highwater.harness.runs.history import READ_UNCOMMITTED
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.harness.runs.programs.expressions import ProgramRecord, expression
from highwater.harness.runs.recorder import Recorder

_READ_AT_ONCE: Final = 5_000
_POLL_S: Final = 0.1
_VALUE_LETTERS: Final = 200
_UNNAMED_MOST: Final = 3


def read_outputs(
    plan: Plan, program: ProgramPlan, recorder: Recorder, settings: Settings, *, limit_s: float
) -> list[str]:
    """Record every output, and the end of the read in each partition, within a limit.

    If an output contains the names of several inputs, it has a row for each name. Without a name it
    has one row.

    Args:
        settings: settings for a read_committed consumer.

    Returns:
        Sentences about problems. With a problem, missing outputs do not prove an error of the
            program.
    """
    deadline = time.monotonic() + limit_s
    try:
        ends = _written(plan, program, settings, limit_s)
    except WaitTimeoutError as late:
        return [late.message]
    names, unnamed, named = expression(program.match), list[str](), 0
    at = dict.fromkeys(ends, 0)
    client = Consumer({**settings, "enable.partition.eof": True})
    try:
        client.assign([TopicPartition(program.out, partition, 0) for partition in ends])
        while any(at[p] < end for p, end in ends.items()) and time.monotonic() < deadline:
            for message in client.consume(_READ_AT_ONCE, _POLL_S):
                partition, offset = message.partition() or 0, message.offset() or 0
                error = message.error()
                if error is None:
                    row, inputs = _row(message), names(_record(message))
                    for name in inputs or (None,):
                        recorder.output({**row, "input": name})
                    at[partition] = offset + 1
                    named += bool(inputs)
                    if not inputs and len(unnamed) < _UNNAMED_MOST:
                        unnamed.append(str(row["value"]))
                elif error.code() == EOF:
                    at[partition] = max(at[partition], offset)
    except UsageError as failed:
        return [failed.message]
    finally:
        client.close()
    for partition in (partition for partition, end in ends.items() if at[partition] >= end):
        recorder.output({"kind": "end", "partition": partition, "offset": at[partition]})
    return [
        *(
            f"{program.out}-{p} was read only to offset {at[p]} of {end} in {limit_s:g} s. An open"
            " transaction may hide the records after this offset."
            for p, end in ends.items()
            if at[p] < end
        ),
        *_nothing_named(program, named, unnamed),
    ]


def record_exempt(
    program: ProgramPlan, inputs: Iterable[tuple[str, bytes]], recorder: Recorder
) -> list[str]:
    """Record the inputs that do not match the program's ``when``, and so need no output.

    Args:
        inputs: names and values of all inputs that were sent.

    Returns:
        Empty, or one sentence: the reason why outputs cannot be judged.
    """
    if not program.when:
        return []
    needs, needed, first = expression(program.when), 0, b""
    try:
        for place, (name, value) in enumerate(inputs):
            first = first or value
            if needs(ProgramRecord(value, name.encode())):
                needed += 1
                continue
            recorder.output({"kind": "exempt", "partition": 0, "offset": place, "input": name})
    except UsageError as failed:
        return [failed.message]
    if needed:
        return []
    beginning = first[:_VALUE_LETTERS].decode("utf-8", "replace")
    return [f"--when {program.when!r} matches no input. The first input is: {beginning!r}."]


def _written(
    plan: Plan, program: ProgramPlan, settings: Settings, limit_s: float
) -> dict[int, int]:
    """Return partition -> end offset of the output topic, uncommitted records included."""
    client = Consumer({**settings, "isolation.level": READ_UNCOMMITTED})
    try:
        return await_condition(
            lambda: log_ends(client, program.out, plan.topic.partitions),
            what=f"the leaders of {program.out} to return its end offsets",
            limit_s=limit_s,
            passing=(KafkaException,),
        )
    finally:
        client.close()


def _record(message: Message) -> ProgramRecord:
    headers: Any = message.headers()  # bytes, or str by confluent-kafka's types
    return ProgramRecord(message.value(), message.key(), dict(headers or ()))


def _row(message: Message) -> dict[str, object]:
    value = message.value()
    return {
        "kind": "output",
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        "value": (value or b"").decode("utf-8", "replace")[:_VALUE_LETTERS],
    }


def _nothing_named(program: ProgramPlan, named: int, unnamed: list[str]) -> list[str]:
    if named:
        return []
    if not unnamed:
        return [f"The program has written nothing to {program.out}."]
    first = ", ".join(map(repr, unnamed))
    way = f"that --match {program.match!r} finds"
    return [
        f"No output in {program.out} has the name of an input {way}. The first outputs: {first}."
    ]
