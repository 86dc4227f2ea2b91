"""The history as tables: operations, observations, faults and broker log lines.

Every time is an ``int64``: nanoseconds since the run's start, on one monotonic clock. During the
run, a table's rows are appended to an Arrow stream (``*.arrows``), one flushed batch at a time. If
the writer is killed, the stream is readable up to its last complete batch. At the end of the run,
the stream becomes Parquet.
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
"""ok: the operation happened. fail: it did not happen. info: it may have happened, for example
after a timeout."""

SEND: Final = "send"
READ: Final = "read"
ASSIGN: Final = "assign"
SUBSCRIBE: Final = "subscribe"
SEEK: Final = "seek"
REBALANCE: Final = "rebalance"
END: Final = "end"
"""Kinds of operations. A ``send`` or ``read`` row is one record. ``end`` is the end of a log:
``offset`` is the next record's offset (only in Jepsen's histories, and at the end of a run that
only reads). The other kinds
change a reader's position or partitions. These kinds have one row for each partition, or one row
without a partition. ``assign``: from now on the reader reads exactly these partitions.
``subscribe``: its group may assign these partitions; ``value`` is the name of its group (empty in
older runs). ``seek``: the reader continues at ``offset`` (null: at any offset). ``rebalance``: the
reader's partitions changed during ``op``. A share group member may get records in any order. So
each of its polls that returned records begins with a ``rebalance`` row without a partition."""

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
"""``isolation`` of a read (KIP-98). Null means read_committed, librdkafka's default."""

FENCE: Final = "fence"
"""The process that writes the last record of each partition. Checkers ignore its records."""

RUN: Final = "run"
FINAL: Final = "final"
"""The phases of a run. In ``run``, faults happen. In ``final``, after the healing, the harness
writes one fence record to every partition, and a reader reads up to the fence. So the reader passes
every earlier offset. A run that only reads has no fence: it reads from the last ``seek`` to the
``end`` of this phase."""

_ROW_GROUP: Final = 100_000
_WORD = pa.dictionary(pa.int32(), pa.string())

OPERATIONS: Final = pa.schema(
    [
        pa.field("process", _WORD, nullable=False),  # producer-0, consumer-1, fence, reader
        pa.field("kind", _WORD, nullable=False),  # send, read, … rebalance, end
        pa.field("phase", _WORD, nullable=False),  # run, final
        pa.field("outcome", _WORD, nullable=False),  # ok, fail, info
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),  # null: no response
        pa.field("topic", _WORD, nullable=False),
        pa.field("partition", pa.int32()),  # null: the client chose none, or returned none
        pa.field("offset", pa.int64()),  # null: not returned (acks=0, or no response)
        pa.field("leader_epoch", pa.int32()),  # returned by the broker; null: not returned
        pa.field("acks", _WORD),  # 0, 1, all; null for reads
        pa.field("value", pa.string(), nullable=False),  # the record's id, see record_id(); a group
        pa.field("error", _WORD),  # the client's error name; also of a send in an OK transaction
        pa.field("op", pa.int64()),  # number of the process's operation; null: in row order
        pa.field("isolation", _WORD),  # read_committed, read_uncommitted; null for sends
    ]
)
"""One row for each record sent or read.

All records of one poll, or of one transaction, are one operation of their process: their rows have
the same ``op``, in the order in which the client sent or got the records. ``op`` increases in the
order in which the process began its operations. In a transaction, a send has the transaction's
outcome: ``ok`` if it was committed, ``fail`` if it was aborted, ``info`` if that is unknown.
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
        pa.field("unchanged_ns", pa.int64()),  # as in REPLICAS
    ]
)
"""A row for each observation in which the leader, leader epoch, ISR or controller differs from the
previous row."""

REPLICAS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leo", pa.int64()),  # null: the broker did not respond
        pa.field("hw", pa.int64()),
        # start of the last query whose response was the previous row's; null: no previous row
        pa.field("unchanged_ns", pa.int64()),
    ]
)
"""A row for each observation in which a replica's LEO or HW differs from the previous row. The time
of a row is the end of its query."""

REMOVED: Final = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first", pa.int64()),
        pa.field("end", pa.int64()),  # the offset after the last removed offset
    ]
)

FAULTS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),  # kill, pause, stop, or step for a story
        pa.field("phase", pa.string(), nullable=False),  # inject, heal, note
        pa.field("broker", pa.int32()),  # the target; null: not exactly one broker
        pa.field("says", pa.string(), nullable=False),  # one sentence for a person
        # offsets that the fault removed from the broker's logs; see harness.runs.faults.effects
        pa.field("removed", pa.list_(REMOVED)),
        pa.field("step", pa.int32()),  # in a note: the model schedule's step, from 1 on
    ]
)

LOG_LINES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64()),  # null: the line has no time
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
        # fetch: a follower fetches from its LEO; told: a leader sends it a HW; held: the relay
        # withheld a HW; leadership: a controller announces the leader; isr: a broker asks to
        # change an ISR
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.int32(), nullable=False),  # the sender; 0: ZooKeeper, the controller
        pa.field("target", pa.int32(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leo", pa.int64()),  # in fetch rows
        pa.field("hw", pa.int64()),  # in told and held rows
        pa.field("epoch", pa.int32()),  # the leader's; -1: none (fetch before KIP-320)
        pa.field("leader", pa.int32()),  # in leadership and isr rows; -1: not changed
        pa.field("isr", pa.list_(pa.int32())),  # in leadership and isr rows
    ]
)
"""Messages between brokers, as the relay received them. A row is written if a message differs from
the previous message with the same kind, nodes and partition. Only runs with the relay have this
table. No checker needs this table."""

STEPS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # begin: all replicas are in sync, and the schedule begins; strike: the schedule starts to
        # inject a fault; struck: the fault has taken effect; heal: the schedule starts to heal it;
        # healed: it is healed; left-out: it was not injected, and the column says has the reason
        pa.field("event", pa.string(), nullable=False),
        pa.field("step", pa.int32()),  # the step's number; null for begin and left-out
        pa.field("fault", pa.string()),
        pa.field("target", pa.string()),  # as in the schedule: leader, any, 2
        pa.field("broker", pa.int32()),  # the target; null for a fault without a broker
        pa.field("partition", pa.int32()),
        pa.field("choice", pa.float64()),
        pa.field("says", pa.string()),
        pa.field("message", pa.string()),  # for faults on messages: the kind of message
        pa.field("controllers", pa.list_(pa.int32())),  # the targets, if several controllers
    ]
)
"""The actions of a schedule of faults, with their times. The schedule can be repeated from these
rows. Stories write no rows of this table, and no checker needs it. The model reads the start of
each fault from this table."""

MESSAGES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # caught: a rule acts on the message; released: the message need not wait any more;
        # client-gone: its client closed the connection; sent: the relay forwarded it; repeated:
        # the relay sent a copy; answered: the client got the response; discarded: the response
        # came after the client had ended; dropped: the rule dropped it; refused: the relay
        # responded with an error (for a request before the broker acted, for a response after);
        # lost: the connection ended; passed: another message between the same nodes that the
        # relay forwarded in the meantime, or that had to wait behind this message
        pa.field("event", pa.string(), nullable=False),
        pa.field("message", pa.int32()),  # number of the caught message; null for passed
        pa.field("action", pa.string()),  # hold, drop, repeat, delay, refuse; null for passed
        pa.field("side", pa.string(), nullable=False),  # request, answer
        pa.field("source", pa.string(), nullable=False),  # client:producer-0, broker-1
        pa.field("target", pa.string(), nullable=False),
        pa.field("connection", pa.int32(), nullable=False),  # number of the relay's connection
        pa.field("place", pa.int32(), nullable=False),  # position in its connection's requests
        pa.field("api", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("correlation", pa.int32(), nullable=False),
        pa.field("transactional_id", pa.string()),
        pa.field("producer_id", pa.int64()),
        pa.field("epoch", pa.int32()),  # the producer's epoch, otherwise the leader's
        pa.field("topic", pa.string()),  # of the rule's partition, or of the first partition
        pa.field("partition", pa.int32()),
        # for released: order, schedule, healing, time; for refused, answered and discarded: the
        # error; empty without an error
        pa.field("cause", pa.string()),
    ]
)
"""The events of single messages that the relay held, dropped, repeated, delayed or refused. The
table also has messages between the same nodes that passed in the meantime, or had to wait. No
checker needs it."""

DECISIONS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        # answered: Kafka responded that it was done; unanswered: Kafka did not respond, or refused;
        # end: the value in ZooKeeper at the run's end (on KRaft, the metadata log on disk has it)
        pa.field("evidence", pa.string(), nullable=False),
        # topic: the topic exists; setting: of a topic; replicas: of a partition; leader: the broker
        # that became leader (its epoch is known only with evidence end); feature: its finalized
        # level; voter: a controller may vote (KIP-853)
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),  # topic, feature or controller
        pa.field("partition", pa.int32()),  # for replicas and leader
        pa.field("setting", pa.string()),  # name of the setting
        pa.field(
            "value", pa.string()
        ),  # null for a setting: the brokers' default; null for a voter: it has no vote
        pa.field("epoch", pa.int32()),  # the leader's
    ]
)
"""The controllers' responses to requests of the harness, one row for each response. Leaders and
ISRs that were only observed are rows of ``PARTITIONS``."""

QUORUM: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),  # a controller
        pa.field("voter", pa.bool_(), nullable=False),  # false: it is an observer (KIP-853)
        pa.field("leo", pa.int64(), nullable=False),  # end of the part that equals the leader's log
        pa.field(
            "leader", pa.int32(), nullable=False
        ),  # the quorum's leader, which reports the row
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("hw", pa.int64(), nullable=False),  # every record before this offset is committed
    ]
)
"""The report of a KRaft quorum's leader about every controller's metadata log (DescribeQuorum,
KIP-595). A row is written if a controller's values differ from its previous row."""

FETCHES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("process", pa.string(), nullable=False),  # the reader
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),  # the broker that it reads from; -1: none
        pa.field("leader", pa.int32(), nullable=False),  # the leader that it knows; -1: none
        pa.field("records", pa.int64(), nullable=False),  # received since the previous row
        pa.field("moved", pa.bool_(), nullable=False),  # some records came from another broker
    ]
)
"""The brokers from which readers in racks fetch, by the clients' statistics. A row is written if
records arrived or the broker changed. Only runs with racks have this table, and no checker needs
it."""

GROUPS: Final = pa.schema(
    [
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),  # null: no response
        pa.field("process", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        # assigned: the member got a partition, and begins at offset; revoked: the member gave a
        # partition up; lost: the group removed the member from a partition; commit: the member
        # asked to commit offset; committed: it received the group's offset (null: none); given: a
        # poll returned the records from offset to before end; sought: its position did not exist,
        # and it continues from offset; ended: its client left the group, or (outcome info) ended
        # without leaving, as in a crash.
        # In a share group: acquired: a poll returned a record; accept, release, reject: the kind
        # of acknowledgement; ended, too; drained (process reader): no more records were delivered.
        pa.field("event", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),  # ok, or info: it may have happened
        pa.field("partition", pa.int32()),  # null for ended
        pa.field("offset", pa.int64()),
        # for given: the end; for committed rows of the process reader: the end of
        # __consumer_offsets before the request
        pa.field("end", pa.int64()),
        pa.field("epoch", pa.int32()),  # for assigned: the generation or member epoch
        pa.field("deliveries", pa.int32()),  # for acquired: delivery count in the response
        pa.field("error", pa.string()),  # the client's error name; null when ok
    ]
)
"""Requests of group members and their responses: a row for each partition, or for each record of a
share group.

For assigned, revoked and lost, ``invoke_ns`` and ``complete_ns`` are the begin and the end of the
client's callback. The process ``reader`` requests the group's offsets after all members have ended.
Only runs with ``--subscribe`` or ``--share``, with a program under test, or of a story that commits
a group's offsets have this table."""

ANSWERS: Final = pa.schema(
    [
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),  # __transaction_state, __share_group_state
        pa.field("end", pa.int64(), nullable=False),  # end of that topic before the request
        pa.field("name", pa.string(), nullable=False),  # a transactional id, or a share group
        pa.field("partition", pa.int32(), nullable=False),  # of the topic under test; otherwise 0
        pa.field("state", pa.string()),  # of a transaction: Ongoing, PrepareCommit, …
        pa.field("producer_id", pa.int64()),
        pa.field("epoch", pa.int32()),  # the producer's
        pa.field("offset", pa.int64()),  # a share group's start offset; null: it has none
    ]
)
"""The responses of the coordinators of transactions and of share groups at the end of a run, after
they had loaded their logs again. The table has a row for each transactional id, and for each
partition of a share group. Only random runs on our own clusters have this table."""

LOOKUPS: Final = pa.schema(
    [
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),  # the leader, which responded
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),  # the leader's log start, asked before
        pa.field("hw", pa.int64(), nullable=False),  # the leader's HW, asked before
        # null: the request was for the largest timestamp (KIP-734)
        pa.field("timestamp_ms", pa.int64()),
        pa.field("offset", pa.int64()),  # null: the leader found no such record
    ]
)
"""The leaders' responses to ListOffsets with a time (KIP-79), after the final read: the offset of
the first record with this timestamp or a later one."""

OUTPUTS: Final = pa.schema(
    [
        # output: an output; end: the partition was read up to here; exempt: the input needs no
        # output; acknowledged: an instance printed that it wrote the output
        pa.field("kind", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),  # or the instance that printed it
        pa.field("offset", pa.int64(), nullable=False),  # or the number of the printed line
        pa.field(
            "timestamp_ms", pa.int64()
        ),  # time of the append by the broker's clock, since 1970
        pa.field("input", pa.string()),  # name of the output's input; null: no input
        pa.field("value", pa.string()),  # the beginning of the output
    ]
)
"""The outputs of a program under test, which a read_committed reader read at the end. The table has
a row for each output, for each partition that was read to its end, and for each input that needs no
output. Lines that instances print have rows, too (``highwater.runtime.programs.printed_lines``)."""

INSTANCES: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("instance", pa.int32(), nullable=False),
        pa.field("life", pa.int32(), nullable=False),  # number of its process, from 1 on
        # started; ended: without a fault; killed, stopped (SIGTERM), paused, resumed: by a fault;
        # closed: the harness stopped it after the run
        pa.field("event", pa.string(), nullable=False),
        pa.field("status", pa.int32()),  # exit status; negative: a signal
    ]
)
"""Starts, ends and faults of the instances of a program under test."""

REQUESTS: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),  # time at which the relay got the request
        pa.field("answered_ns", pa.int64()),  # time at which it got the response; null: never
        pa.field("instance", pa.int32()),  # the sender; null: not known
        pa.field("source", pa.string(), nullable=False),  # client:app-0, or client:CLIENT-ID
        pa.field("target", pa.int32(), nullable=False),  # a broker
        pa.field("connection", pa.int32(), nullable=False),  # number of the relay's connection
        # Produce to the output, OffsetCommit and TxnOffsetCommit of the group, EndTxn
        pa.field("api", pa.string(), nullable=False),
        pa.field("topic", pa.string()),  # null for EndTxn, like the partition
        pa.field("partition", pa.int32()),
        pa.field(
            "offset", pa.int64()
        ),  # offset to commit, or the first record's (from the response)
        pa.field("records", pa.int32()),  # in a Produce; null for formats before 0.11
        pa.field("acks", pa.int32()),  # in a Produce; with 0 there is no response
        pa.field("commits", pa.bool_()),  # in an EndTxn; false: it aborts
        pa.field("error", pa.int32()),  # Kafka's code; null without a response
        pa.field("transactional_id", pa.string()),
        pa.field("producer_id", pa.int64()),
        pa.field("epoch", pa.int32()),
        pa.field("batch", pa.binary()),  # records that were refused, not answered, or repeated
    ]
)
"""The requests of a program under test and their responses, as the relay received them. The table
has a row for each partition of a request."""

ADDED: Final = frozenset(
    ("op", "isolation", "removed", "step", "message", "controllers", "unchanged_ns")
)
"""Columns that older runs do not have. All of these columns may be null."""

OPERATIONS_TABLE: Final = "history/ops"
TABLES: Final = {
    OPERATIONS_TABLE: OPERATIONS,
    "events/partitions": PARTITIONS,
    "events/replicas": REPLICAS,
    "events/faults": FAULTS,
    "events/log_lines": LOG_LINES,
}
"""The path of each table in a run, without suffix, and the table's schema."""

WIRE_TABLE: Final = "events/wire"
MESSAGES_TABLE: Final = "events/messages"
FETCHES_TABLE: Final = "events/fetches"
GROUPS_TABLE: Final = "history/groups"
ANSWERS_TABLE: Final = "history/answers"
LOOKUPS_TABLE: Final = "history/lookups"
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
WHERE_RECORDED: Final = {
    **DECIDED,
    GROUPS_TABLE: GROUPS,
    ANSWERS_TABLE: ANSWERS,
    LOOKUPS_TABLE: LOOKUPS,
    **OF_PROGRAM,
}
"""Tables that checkers read if a run has them; older runs do not have them."""

OPTIONAL: Final = {
    STEPS_TABLE: STEPS,
    WIRE_TABLE: WIRE,
    MESSAGES_TABLE: MESSAGES,
    FETCHES_TABLE: FETCHES,
    **WHERE_RECORDED,
}
"""Tables that not every run has."""


def record_value(identity: str, size: int) -> bytes:
    """Return a record's value: its id ``identity``, padded with ``|...`` to ``size`` bytes."""
    return identity.encode() if len(identity) >= size else f"{identity}|".ljust(size, ".").encode()


def record_id(value: bytes) -> str:
    """Return the id inside a record's value: everything before the first ``|``."""
    return value.split(b"|", 1)[0].decode("utf-8", "backslashreplace")


class StreamWriter:
    """Appends record batches to an Arrow stream. Each batch is in the file when ``append`` returns.

    Threads can share this object. Appended batches survive ``kill -9`` of this process. If a batch
    cannot be written completely (a full disk), the stream ends with the batch before it.

    Attributes:
        rows: number of rows written.
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
        # Arrow writes the schema with the first batch. Without a batch, the file is not a stream.
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))
        self._write_pending()

    def append(self, batch: pa.RecordBatch) -> None:
        """Write one batch of this schema. After an ``OSError`` the writer cannot be used again."""
        with self._lock:
            self._stream.write_batch(batch)
            self._write_pending()
            self.rows += batch.num_rows

    def append_rows(self, rows: list[dict[str, object]]) -> None:
        """Write a few rows, for tables that grow slowly."""
        if rows:
            self.append(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def close(self) -> None:
        """Write the end of the stream, and close the file."""
        with self._lock, self._file:
            self._stream.close()
            self._write_pending()
            os.fsync(self._file.fileno())

    def abandon(self) -> None:
        """Close the file after an error. The stream ends with its last complete batch."""
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
    """Return the columns of ``schema``. A column of ``ADDED`` that an older run lacks is null."""
    for name in sorted(ADDED.intersection(schema.names).difference(rows.column_names)):
        kind = schema.field(name).type
        rows = rows.append_column(name, pa.nulls(len(rows), kind))
    return rows.select(schema.names)


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of an Arrow stream.

    A truncated batch ends the stream without an error.

    Raises:
        pa.ArrowInvalid: the schema could not be read.
        OSError: the file's bytes cannot be read from the disk.
    """
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
        try:
            yield from stream
        except pa.ArrowInvalid:
            return
        except OSError as error:
            if error.errno:  # Arrow's own error about a truncated body has no errno
                raise


def read_table(file: Path, name: str) -> pa.Table:
    """Return a table of ``TABLES`` or ``OPTIONAL`` from its Parquet file, or from its stream."""
    if file.suffix == ".parquet":
        return pq.read_table(file)
    return completed(pa.Table.from_batches(read_stream(file)), {**TABLES, **OPTIONAL}[name])


def to_parquet(stream: Path, parquet: Path) -> int:
    """Convert an Arrow stream to Parquet, remove the stream, and return the number of rows.

    Small batches are merged, because a Parquet file with many row groups is slow to read.
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
    """Merge the batches, and yield tables of about ``_ROW_GROUP`` rows."""
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
