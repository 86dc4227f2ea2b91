"""The history as tables: operations, observations, faults and broker log lines.

Every time is an ``int64`` of nanoseconds since the run's start on one monotonic clock. A table is
appended to an Arrow stream while the run goes on (``*.arrows``, one batch flushed at a time,
readable up to its last whole batch whatever killed the writer) and becomes Parquet when the run has
ended.
"""

import contextlib
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
"""ok: it happened. fail: it did not. info: it may or may not have happened (a time-out)."""

SEND: Final = "send"
READ: Final = "read"
ASSIGN: Final = "assign"
SUBSCRIBE: Final = "subscribe"
SEEK: Final = "seek"
REBALANCE: Final = "rebalance"
END: Final = "end"
"""Kinds. ``send`` and ``read`` are one record each. ``end`` says where a log ended: ``offset`` is
the next record's (foreign histories alone have it). The others are what moves a reader, one row for
each partition concerned (none: one row without a partition): from now on it reads exactly these
(``assign``) or may be given these (``subscribe``), goes on from ``offset`` (``seek``; null: from
wherever), or had its partitions changed within ``op`` (``rebalance``). ``value`` of a ``subscribe``
is the name of its group; runs recorded before have none. A member of a share group is given records
in any order: its every poll that returned any begins with a ``rebalance`` without a partition."""

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
"""``isolation`` of a read (KIP-98); null counts as committed, which is librdkafka's default."""

FENCE: Final = "fence"
"""The process that writes the last record of each partition; its records are never judged."""

RUN: Final = "run"
FINAL: Final = "final"
"""Phases. In ``run`` faults happen; in ``final``, after healing, one fence record is written to
every partition and everything up to it is read: a reader has then passed every earlier offset."""

_ROW_GROUP: Final = 100_000
_WORD = pa.dictionary(pa.int32(), pa.string())

OPERATIONS: Final = pa.schema(
    [
        pa.field("process", _WORD, nullable=False),  # producer-0, consumer-1, fence, reader
        pa.field("kind", _WORD, nullable=False),  # send, read, … rebalance, end
        pa.field("phase", _WORD, nullable=False),  # run, final
        pa.field("outcome", _WORD, nullable=False),  # ok, fail, info
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),  # null: never answered
        pa.field("topic", _WORD, nullable=False),
        pa.field("partition", pa.int32()),  # null: the client never chose one, or none was returned
        pa.field("offset", pa.int64()),  # null: not returned (acks=0, or no response)
        pa.field("leader_epoch", pa.int32()),  # as the broker returned it; null: it did not
        pa.field("acks", _WORD),  # 0, 1, all; null for reads
        pa.field("value", pa.string(), nullable=False),  # the record's id, see record_id(); a group
        pa.field("error", _WORD),  # the client's error name; null when ok
        pa.field("op", pa.int64()),  # counts the process's operations; null: in order of rows
        pa.field("isolation", _WORD),  # read_committed, read_uncommitted; null for sends
    ]
)
"""One row for each record sent or read.

What one poll returned, or one transaction did, is one operation of its process: its rows share
``op``, and stand in the order in which the client gave or got them. ``op`` grows in the order in
which the process began its operations. In a transaction a send's outcome is the transaction's:
``ok`` when its commit was, ``fail`` when it was aborted, ``info`` when that is unknown.
"""

PARTITIONS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader", pa.int32(), nullable=False),  # -1: none
        pa.field("leader_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32()), nullable=False),
        pa.field("controller", pa.int32()),
    ]
)
"""One row whenever leader, epoch, ISR or controller differ from the row before."""

REPLICAS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leo", pa.int64()),  # null: the broker did not answer
        pa.field("hw", pa.int64()),
    ]
)
"""One row whenever a replica's LEO or HW differ from the row before."""

REMOVED: Final = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first", pa.int64()),
        pa.field("end", pa.int64()),  # the offset after the last
    ]
)

FAULTS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),  # kill, pause, stop, or step for a story
        pa.field("phase", pa.string(), nullable=False),  # inject, heal, note
        pa.field("broker", pa.int32()),  # whom; null: none in particular
        pa.field("says", pa.string(), nullable=False),  # one sentence for a person
        # offsets that it removed from its broker's logs; see harness.runs.faults.effects
        pa.field("removed", pa.list_(REMOVED)),
        pa.field("step", pa.int32()),  # of a note: the step of a model's schedule, from 1 on
    ]
)

LOG_LINES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64()),  # null: the line bears no time
        pa.field("broker", pa.int32(), nullable=False),
        # truncation, kept, answer, range, fetcher, leader, follower, created, loaded, isr,
        # election, unclean, start, stop, error: see highwater.runtime.broker_log_parser
        pa.field("kind", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("line", pa.string(), nullable=False),
    ]
)

WIRE: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # fetch: a follower asks for its LEO; told: it gets a HW; held: it was not to get it;
        # leadership: a controller tells who leads; isr: a change of an ISR is asked for
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.int32(), nullable=False),  # who sends; 0: ZooKeeper, the controller
        pa.field("target", pa.int32(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leo", pa.int64()),  # of a fetch
        pa.field("hw", pa.int64()),  # of told and held
        pa.field("epoch", pa.int32()),  # the leader's; -1: a fetch before KIP-320 tells none
        pa.field("leader", pa.int32()),  # of leadership and isr; -1: it stays
        pa.field("isr", pa.list_(pa.int32())),  # of leadership and isr
    ]
)
"""What passed between brokers, as the wire saw it: a row whenever it differs from the one before of
its kind, ends and partition. Only runs with the wire have it, and no checker asks for it."""

STEPS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # begin: all is in sync, and the schedule begins; strike: a fault is about to be injected;
        # struck: it has taken effect; heal: it is about to be healed; healed: it is healed;
        # left-out: it was not to be, and says tells why
        pa.field("event", pa.string(), nullable=False),
        pa.field("step", pa.int32()),  # which; null of begin and left-out
        pa.field("fault", pa.string()),
        pa.field("target", pa.string()),  # as the schedule has it: leader, any, 2
        pa.field("broker", pa.int32()),  # its target; null for a fault without a broker
        pa.field("partition", pa.int32()),
        pa.field("choice", pa.float64()),
        pa.field("says", pa.string()),
        pa.field("message", pa.string()),  # of a fault of messages, the kind of message
        pa.field("controllers", pa.list_(pa.int32())),  # its targets, where there are several
    ]
)
"""What a schedule of faults did and when, exactly enough to be done again. Stories have none of it,
and no checker asks for it; the model learns from it when a fault began."""

MESSAGES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # caught: a rule acts on it; released: it need not wait any more; client-gone: its client
        # closed the connection; sent: it went on; repeated: a copy did; answered: its client got
        # the answer; discarded: the answer came, and no client was there; dropped: by the rule;
        # lost: with its connection; passed: it went on between the ends of a message in hand, or
        # after it, when it had waited behind it
        pa.field("event", pa.string(), nullable=False),
        pa.field("message", pa.int32()),  # counts those that rules act on; null of passed
        pa.field("action", pa.string()),  # hold, drop, repeat, delay; null of passed
        pa.field("side", pa.string(), nullable=False),  # request, answer
        pa.field("source", pa.string(), nullable=False),  # client:producer-0, broker-1
        pa.field("target", pa.string(), nullable=False),
        pa.field("connection", pa.int32(), nullable=False),  # counts connections of the wire
        pa.field("place", pa.int32(), nullable=False),  # among the requests of its connection
        pa.field("api", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("correlation", pa.int32(), nullable=False),
        pa.field("transactional_id", pa.string()),
        pa.field("producer_id", pa.int64()),
        pa.field("epoch", pa.int32()),  # the producer's, or else the leader's
        pa.field("topic", pa.string()),  # of the partition that the rule is about, or the first
        pa.field("partition", pa.int32()),
        pa.field("cause", pa.string()),  # of released: order, schedule, healing, time
    ]
)
"""What became of single messages that the wire held, dropped, repeated or delayed, and what passed
between the same two ends while one was in hand, or had waited behind it. No checker asks for it."""

DECISIONS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # answered: Kafka said that it is done; unanswered: it was asked, and did not say so, or
        # refused; end: what ZooKeeper had of it at the run's end (KRaft's log has it on disk)
        pa.field("evidence", pa.string(), nullable=False),
        # topic: it exists; setting: of a topic; replicas: of a partition; leader: it was made the
        # leader, in an epoch that is only known of evidence end; feature: its finalized level;
        # voter: a controller votes (KIP-853)
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),  # topic, feature or controller
        pa.field("partition", pa.int32()),  # of replicas and leader
        pa.field("setting", pa.string()),  # its name
        pa.field(
            "value", pa.string()
        ),  # null of a setting: the brokers' default; of a voter: no vote
        pa.field("epoch", pa.int32()),  # the leader's
    ]
)
"""What controllers decided because the harness asked for it: a row an answer. Leaders and ISRs that
were only seen are rows of ``PARTITIONS``."""

QUORUM: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),  # a controller
        pa.field("voter", pa.bool_(), nullable=False),  # false: it is an observer (KIP-853)
        pa.field("leo", pa.int64(), nullable=False),  # up to here its log is the leader's
        pa.field("leader", pa.int32(), nullable=False),  # of the quorum: who says all that
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("hw", pa.int64(), nullable=False),  # everything below it is committed
    ]
)
"""What the leader of a KRaft quorum says of every controller's metadata log (DescribeQuorum,
KIP-595): a row whenever it differs from the row before of that controller."""

FETCHES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("process", pa.string(), nullable=False),  # the reader
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),  # from which it fetches; -1: none
        pa.field("leader", pa.int32(), nullable=False),  # as the reader knows it; -1: none
        pa.field("records", pa.int64(), nullable=False),  # that came since the row before
        pa.field("moved", pa.bool_(), nullable=False),  # some of them came from another broker
    ]
)
"""The brokers from which readers in racks fetch, as their client's statistics say: a row whenever
records came or the broker changed. Only runs with racks have it, and no checker asks for it."""

GROUPS: Final = pa.schema(
    [
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),  # null: never answered
        pa.field("process", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        # assigned: the member was given a partition, and begins at offset; revoked: it gave it up;
        # lost: it learned that it had been removed; commit: it asked to commit offset; committed:
        # it was told the group's offset (null: none); given: a poll returned the records from
        # offset to before end; sought: it goes on from offset, as its own was not there; ended: its
        # client left, or (outcome info) ended as by a crash.
        # Of a share group: acquired: a poll returned a record; accept, release, reject: so it was
        # acknowledged; ended, too; drained (of the process reader): none was given any more.
        pa.field("event", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),  # ok, or info: it may have happened
        pa.field("partition", pa.int32()),  # null of ended
        pa.field("offset", pa.int64()),
        pa.field("end", pa.int64()),  # of given
        pa.field("epoch", pa.int32()),  # of assigned: the generation, or the member's epoch
        pa.field("deliveries", pa.int32()),  # of acquired: the delivery count in the response
        pa.field("error", pa.string()),  # the client's error name; null when ok
    ]
)
"""What members of groups did, and responses: a row for each partition, or record of a share group.

``invoke_ns`` and ``complete_ns`` of assigned, revoked and lost are the begin and the end of the
client's callback. The process ``reader`` asks for the group's offsets when all has ended. Only runs
with ``--subscribe`` or ``--share`` have it."""

OUTPUTS: Final = pa.schema(
    [
        # output; end: the partition was read to here; exempt: the input needs no output;
        # acknowledged: an instance says that it is written
        pa.field("kind", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),  # or the instance that has printed it
        pa.field("offset", pa.int64(), nullable=False),  # or the place among what was printed
        pa.field("timestamp_ms", pa.int64()),  # of its append, by the broker's clock, since 1970
        pa.field("input", pa.string()),  # name of the input that it names; null: of none
        pa.field("value", pa.string()),  # how the output begins
    ]
)
"""The outputs of a program under test that a read_committed reader was given in the end: a row an
output, one for each partition that was read to its end, and one an input that needs no output.
What instances print has such rows, too (``highwater.runtime.programs.printed_lines``)."""

INSTANCES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("instance", pa.int32(), nullable=False),
        pa.field("life", pa.int32(), nullable=False),  # counts its processes, from 1 on
        # started; ended: by itself; killed, stopped (SIGTERM), paused, resumed: by a fault;
        # closed: by the harness, when the run was over
        pa.field("event", pa.string(), nullable=False),
        pa.field("status", pa.int32()),  # with which it ended; negative: the signal
    ]
)
"""The lives of the instances of a program under test."""

REQUESTS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),  # when it passed the wire
        pa.field("answered_ns", pa.int64()),  # when its answer did; null: never
        pa.field("instance", pa.int32()),  # that sent it; null: it is not known
        pa.field("source", pa.string(), nullable=False),  # client:app-0, or client:CLIENT-ID
        pa.field("target", pa.int32(), nullable=False),  # a broker
        pa.field("connection", pa.int32(), nullable=False),  # counts connections of the wire
        # Produce to the output, OffsetCommit and TxnOffsetCommit of the group, EndTxn
        pa.field("api", pa.string(), nullable=False),
        pa.field("topic", pa.string()),  # null of EndTxn, as is the partition
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),  # to commit; or of the first record, as it was answered
        pa.field("records", pa.int32()),  # of a Produce; null of formats before 0.11
        pa.field("acks", pa.int32()),  # of a Produce; 0 has no answer
        pa.field("commits", pa.bool_()),  # of an EndTxn; false: it aborts
        pa.field("error", pa.int32()),  # Kafka's code; null without an answer
        pa.field("transactional_id", pa.string()),
        pa.field("producer_id", pa.int64()),
        pa.field("epoch", pa.int32()),
        pa.field("batch", pa.binary()),  # records that were refused, or never answered
    ]
)
"""The requests of a program under test, and their answers, as they passed the wire: a row for each
partition of a request."""

ADDED: Final = frozenset(("op", "isolation", "removed", "step", "message", "controllers"))
"""Columns that runs recorded before them lack; all may be null."""

OPERATIONS_TABLE: Final = "history/ops"
TABLES: Final = {
    OPERATIONS_TABLE: OPERATIONS,
    "events/partitions": PARTITIONS,
    "events/replicas": REPLICAS,
    "events/faults": FAULTS,
    "events/log_lines": LOG_LINES,
}
"""Path inside a run, without suffix, to the schema of the table there."""

WIRE_TABLE: Final = "events/wire"
MESSAGES_TABLE: Final = "events/messages"
FETCHES_TABLE: Final = "events/fetches"
GROUPS_TABLE: Final = "history/groups"
STEPS_TABLE: Final = "events/steps"
DECISIONS_TABLE: Final = "events/decisions"
QUORUM_TABLE: Final = "events/quorum"
DECIDED: Final = {DECISIONS_TABLE: DECISIONS, QUORUM_TABLE: QUORUM}
OUTPUTS_TABLE: Final = "history/outputs"
INSTANCES_TABLE: Final = "events/instances"
REQUESTS_TABLE: Final = "events/requests"
OF_PROGRAM: Final = {
    OUTPUTS_TABLE: OUTPUTS,
    INSTANCES_TABLE: INSTANCES,
    REQUESTS_TABLE: REQUESTS,
}
WHERE_RECORDED: Final = {**DECIDED, GROUPS_TABLE: GROUPS, **OF_PROGRAM}
"""Tables that checkers read where a run has them; older runs do not."""

OPTIONAL: Final = {
    STEPS_TABLE: STEPS,
    WIRE_TABLE: WIRE,
    MESSAGES_TABLE: MESSAGES,
    FETCHES_TABLE: FETCHES,
    **WHERE_RECORDED,
}
"""Tables that a run need not have."""


def record_value(identity: str, size: int) -> bytes:
    """Return the value of the record ``identity``: its id, padded with ``|...`` to ``size``."""
    return identity.encode() if len(identity) >= size else f"{identity}|".ljust(size, ".").encode()


def record_id(value: bytes) -> str:
    """Return the id inside a record's value: everything before the first ``|``."""
    return value.split(b"|", 1)[0].decode("utf-8", "backslashreplace")


class StreamWriter:
    """Appends record batches to an Arrow stream, each in the file before ``append`` returns.

    Safe to share between threads. What was appended survives ``kill -9`` of this process. A batch
    that cannot be written whole (a full disk) is cut away: the stream ends with a whole batch.

    Attributes:
        rows: how many were written.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.schema = schema
        self.rows = 0
        self._file = path.open("wb", buffering=0)
        self._lock = threading.Lock()
        self._pending = io.BytesIO()
        self._length = 0
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        self._stream = pa.ipc.new_stream(self._pending, schema, options=options)
        # Arrow writes the schema with the first batch; without one an idle table is no stream.
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))
        self._write_pending()

    def append(self, batch: pa.RecordBatch) -> None:
        """Write one batch of this schema; after an ``OSError`` the writer is of no more use."""
        with self._lock:
            self._stream.write_batch(batch)
            self._write_pending()
            self.rows += batch.num_rows

    def append_rows(self, rows: list[dict[str, object]]) -> None:
        """Write a few rows; for tables that grow slowly."""
        if rows:
            self.append(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def close(self) -> None:
        """End the stream properly."""
        with self._lock, self._file:
            self._stream.close()
            self._write_pending()
            os.fsync(self._file.fileno())

    def abandon(self) -> None:
        """Close the file as it is, after an error: it ends with its last whole batch."""
        self._file.close()

    def _write_pending(self) -> None:
        data = self._pending.getbuffer()
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._length)
            raise
        finally:
            data.release()
        self._length += written
        self._pending.seek(0)
        self._pending.truncate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def completed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the columns of a schema; ``ADDED`` ones that it lacks are null."""
    for name in sorted(ADDED.intersection(schema.names).difference(rows.column_names)):
        kind = schema.field(name).type
        rows = rows.append_column(name, pa.nulls(len(rows), kind))
    return rows.select(schema.names)


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of an Arrow stream; a batch cut short ends it quietly.

    Raises:
        pa.ArrowInvalid: not even the schema could be read.
        OSError: the disk does not give the file's bytes.
    """
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
        try:
            yield from stream
        except pa.ArrowInvalid:
            return
        except OSError as error:
            if error.errno:  # Arrow's own, of a body that is cut short, has none
                raise


def to_parquet(stream: Path, parquet: Path) -> int:
    """Turn an Arrow stream into a Parquet file, remove the stream, and return the number of rows.

    Small batches are gathered: a row group for each would make a long, slow run unreadably slow.
    """
    with pa.OSFile(str(stream)) as source, pa.ipc.open_stream(source) as reader:
        schema = reader.schema
    partial = parquet.with_suffix(".partial")
    rows = 0
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for table in _gathered(read_stream(stream), schema):
            writer.write_table(table)
            rows += table.num_rows
    partial.replace(parquet)
    stream.unlink()
    return rows


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches as tables of about ``_ROW_GROUP`` rows each."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        if rows >= _ROW_GROUP:
            yield pa.Table.from_batches(gathered, schema=schema)
            gathered, rows = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered, schema=schema)
