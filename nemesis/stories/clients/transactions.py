"""Stories about transactions: a late message changes the outcome of a later transaction.

``torn-transaction``: the first EndTxn of a transaction is late. The client stops waiting and sends
a second EndTxn on another connection, and the coordinator acknowledges the commit. The client
begins its next transaction. Then the first EndTxn arrives, and commits the next transaction. Before
KIP-890 an EndTxn does not say which transaction of its producer it ends (KAFKA-17754). librdkafka
sends such requests on every release.

``reused-sequence``: the response about a record is lost with its connection, so the client does not
know whether the log has the record. Before the client retries, the application aborts. librdkafka
drops the record, and gives its sequence number to the next record
(``rd_kafka_toppar_purge_queues``). If the first record is in the log, the leader considers the next
record a duplicate: it acknowledges the record, but does not append it.

``hanging-transaction``: a Produce request is late. Its client stops waiting, and the application
aborts the transaction. The abort marker is in the log when the Produce arrives. Up to 3.5 the
leader appends the late record (KAFKA-14402), and this opens a transaction that no coordinator
knows. No client ends this transaction, so read_committed readers get no later record. From 3.6 on
the leader first asks the coordinator (KIP-890, ``transaction.partition.verification.enable``).

``late-produce``: the late Produce of an aborted transaction arrives in its producer's next
transaction. This transaction is open, so every release appends the late record to it. librdkafka
gives the sequence number of the late record to the next record, so the leader considers the next
record a duplicate. The commit then commits the aborted record.

``too-large``: a record is larger than the producer's ``max.request.size``, and its future fails at
once. The program commits without checking the future. Up to 3.1 Java's producer commits without the
record. From 3.2 on it refuses to commit (KAFKA-9279); Kafka Connect relies on this
(``ExactlyOnceWorkerSourceTask.producerSendFailed``).

Before an abort, Java's producer retries records without a response. So the late Produce requests of
``hanging-transaction`` and ``late-produce`` have copies of records that are already in the log. If
clients and brokers are 4.0 or later, each transaction of Java's producer has its own epoch.
"""

from typing import Final

from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.releases.catalogue import release as find_release
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.history import INFO, OK
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import await_event, await_replicas
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LATE_END_TXN: Final = "KAFKA-17754"
"""The id of the problem that ``torn-transaction`` shows, in the catalogue of hazards."""

LATE_PRODUCE: Final = "KAFKA-14402"
"""The id of the problem that ``hanging-transaction`` shows, in the catalogue of hazards."""

NEXT_TRANSACTION: Final = "late-produce"
"""The id of the problem that ``late-produce`` shows, in the catalogue of hazards."""

TOO_LARGE: Final = "KAFKA-9279"
"""The id of the problem that ``too-large`` shows, in the catalogue of hazards."""

_WRITER: Final = "writer"
_OTHER: Final = "other"
_HOLD_FIRST: Final = f"hold EndTxn client:{_WRITER}>*"
_ARRIVES_S: Final = 15.0
_NOTICED_S: Final = 0.1
"""The time after which a client has noticed a closed connection; it retries after a second."""

_HOLD_PRODUCE: Final = f"hold Produce client:{_WRITER}>*"
_GIVES_UP_S: Final = 10.0
"""The longest time that a client waits for a response about a record; its setting is 4 s."""

_DESCRIBES: Final = (3, 0)
"""The first release whose coordinators describe transactions (KIP-664)."""

_ENDING: Final = frozenset(("PrepareCommit", "PrepareAbort"))

_BY_STATE: Final = frozenset(
    (
        *("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        *("PRODUCER_FENCED", "TRANSACTION_ABORTABLE"),
    )
)
"""The errors with which a broker refuses a request that does not fit the transaction's state."""

_LARGEST: Final = {"message.max.bytes": 1_000}
_LARGE_BYTES: Final = 2_000

_NEEDS: Final = StoryNeeds(wire="clients", transactions=True)


@story(
    "torn-transaction",
    HazardEnding(hazard=LATE_END_TXN, ending=Prediction(others=frozenset({("G1a", "m3")}))),
    needs=_NEEDS,
    outcome=(
        "Readers get a record of the aborted transaction: with librdkafka on every release, with"
        " Java unless clients and brokers are 4.0."
    ),
    min_isr_most=3,
)
def torn_transaction(context: ScheduleContext) -> None:
    """Commit a transaction that the application aborts: an earlier EndTxn is late."""
    _late_end_txn(context, renewed=False)


@story(
    "fenced-transaction",
    HazardEnding(hazard=LATE_END_TXN, ending=Prediction()),
    needs=_NEEDS,
    outcome=("Every release refuses the late EndTxn of the old producer."),
    min_isr_most=3,
)
def fenced_transaction(context: ScheduleContext) -> None:
    """Repeat torn-transaction, but with a new producer after the slow commit."""
    _late_end_txn(context, renewed=True)


@story(
    "reused-sequence",
    HazardEnding(hazard="reused-sequence", ending=Prediction(lost=frozenset({"m3"}))),
    needs=_NEEDS,
    outcome=("With librdkafka the record is lost on every release."),
    min_isr_most=3,
)
def reused_sequence(context: ScheduleContext) -> None:
    """Lose a committed record: it gets the sequence number of an aborted record."""
    _after_an_abort(context, flushed=False)


@story(
    "flushed-abort",
    HazardEnding(hazard="reused-sequence", ending=Prediction()),
    needs=_NEEDS,
    outcome="Every release keeps the committed record.",
    min_isr_most=3,
)
def flushed_abort(context: ScheduleContext) -> None:
    """Repeat reused-sequence, but wait for the response about each record before the abort."""
    _after_an_abort(context, flushed=True)


@story(
    "hanging-transaction",
    HazardEnding(
        hazard=LATE_PRODUCE,
        ending=Prediction(others=frozenset({("hanging-transaction", "m2")})),
        libraries=(LIBRDKAFKA,),
    ),
    needs=_NEEDS,
    outcome=(
        "Up to 3.5 the transaction stays open, and read_committed readers get no later record. "
        "Later brokers refuse the late record."
    ),
    min_isr_most=3,
)
def hanging_transaction(context: ScheduleContext) -> None:
    """Open a transaction that never ends: a record arrives after the abort of its transaction."""
    writer = context.transactional(_WRITER)
    committed = _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_PRODUCE) as produce:
        writer.begin()
        writer.send_on("m2", 0)
        says = "the client got no response about m2, and closes that connection"
        _await_event(context, produce, "client-gone", says, limit_s=_GIVES_UP_S)
        refusal = writer.abort()
        context.note(f"the application aborts m2: {refusal or 'done'}")
        _await_markers(context, writer, committed, "the log has the marker of that abort")
        produce.release("schedule")
        _await_late_answer(context, produce, "the Produce request of m2")
    _commit(context, context.transactional(_OTHER), "m3")


@story(
    "late-produce",
    HazardEnding(
        hazard=NEXT_TRANSACTION,
        ending=Prediction(lost=frozenset({"m3"}), others=frozenset({("G1a", "m2")})),
    ),
    needs=_NEEDS,
    outcome=(
        "With librdkafka the aborted record is committed, and the next record is lost, on "
        "every release."
    ),
    min_isr_most=3,
)
def late_produce(context: ScheduleContext) -> None:
    """Commit an aborted record, and lose the next record: a Produce request is late."""
    _in_the_next(context, renewed=False)


@story(
    "fenced-produce",
    HazardEnding(
        hazard=LATE_PRODUCE,
        ending=Prediction(others=frozenset({("G1a", "m2")})),
        libraries=(LIBRDKAFKA,),
    ),
    needs=_NEEDS,
    outcome=(
        "From 3.6 on brokers refuse the late record. Up to 3.5 the aborted record is committed."
    ),
    min_isr_most=3,
)
def fenced_produce(context: ScheduleContext) -> None:
    """Repeat late-produce, but with a new producer after the abort."""
    _in_the_next(context, renewed=True)


@story(
    "too-large",
    HazardEnding(hazard=TOO_LARGE, ending=Prediction(lost=frozenset({"m2"}))),
    needs=StoryNeeds(transactions=True, java=True),
    outcome="With Java clients before 3.2 the commit succeeds, but the record is missing.",
    min_isr_most=3,
)
def too_large(context: ScheduleContext) -> None:
    """Commit a transaction although its producer refused a record as too large."""
    writer = context.transactional(_WRITER, _LARGEST)
    _commit(context, writer, "m0")
    writer.begin()
    writer.send("m1", 0)
    writer.send_on("m2", 0, size=_LARGE_BYTES)
    writer.flush()
    refusal = writer.errors.get("m2", "")
    if "RecordTooLarge" not in refusal:
        raise ScheduleNotFollowedError(f"m2 must be too large, but its outcome is {refusal or OK}")
    context.note(f"the future of m2 has failed: {refusal}", step=1)
    _try_to_end(context, writer, "m1 and m2")
    _commit(context, context.transactional(_OTHER), "m3")


def _in_the_next(context: ScheduleContext, *, renewed: bool) -> None:
    writer = context.transactional(_WRITER)
    committed = _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_PRODUCE) as late:
        writer.begin()
        writer.send_on("m2", 0)
        says = "the client got no response about m2, and closes that connection"
        _await_event(context, late, "client-gone", says, limit_s=_GIVES_UP_S)
        context.note(f"the application aborts m2: {writer.abort() or 'done'}")
        _await_markers(context, writer, committed, "the log has the marker of that abort")
        if renewed:
            writer.renew()
            context.note("a new producer has replaced the old one")
        with context.intercept(_HOLD_PRODUCE) as following:
            writer.begin()
            writer.send_on("m3", 0)
            _await_event(
                context, following, "caught", "the client has sent m3, in the next transaction"
            )
            late.release("schedule")
            _await_late_answer(context, late, "the Produce request of m2")
        _try_to_end(context, writer, "m3")


def _after_an_abort(context: ScheduleContext, *, flushed: bool) -> None:
    writer = context.transactional(_WRITER)
    _commit(context, writer, "m0", "m1")
    with context.intercept(f"drop Produce.answer *>client:{_WRITER}") as answer:
        writer.begin()
        writer.send_on("m2", 0)
        _await_event(
            context,
            answer,
            "dropped",
            "the response about m2 is lost, and its connection is closed",
        )
    if flushed:
        writer.flush()
        if refusal := writer.errors.get("m2"):
            raise ScheduleNotFollowedError(f"the retry of m2 must succeed, but failed: {refusal}")
        context.note("the client has retried, and got the response about m2")
    else:
        context.hold(_NOTICED_S)
        context.note("the client has not retried yet")
    context.note(f"the application aborts m2: {writer.abort() or 'done'}")
    _commit(context, writer, "m3")


def _late_end_txn(context: ScheduleContext, *, renewed: bool) -> None:
    writer = context.transactional(_WRITER)
    _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_FIRST) as end_txn:
        _commit(context, writer, "m2")
        if not end_txn.caught:
            raise ScheduleNotFollowedError("the relay did not hold the EndTxn of m2")
        context.note("the client got the response to a second EndTxn: m2 is committed")
        if renewed:
            writer.renew()
            context.note("a new producer has replaced the old one")
        writer.begin()
        offset = writer.send("m3", 0)
        context.note(f"m3 is at offset {offset}, in an open transaction")
        end_txn.release("schedule")
        _await_late_answer(context, end_txn, "the first EndTxn of m2")
    refusal = writer.abort()
    context.note(f"the application aborts m3: {refusal or 'done'}")


def _commit(context: ScheduleContext, writer: NamedTransactions, *values: str) -> int:
    """Commit some records in one transaction; return the offset of the last record."""
    writer.begin()
    offset = [writer.send(value, 0) for value in values][-1]
    _end(context, writer, *values)
    return offset


def _end(context: ScheduleContext, writer: NamedTransactions, *values: str) -> None:
    """Commit the open transaction; ``values`` are the names of its records.

    Raises:
        ScheduleNotFollowedError: the commit did not succeed.
    """
    outcome = writer.commit()
    if outcome != OK:
        raise ScheduleNotFollowedError(
            f"{', '.join(values)} must be committed, but the outcome is {outcome}"
        )
    context.note(f"the application has committed {', '.join(values)}")


def _try_to_end(context: ScheduleContext, writer: NamedTransactions, value: str) -> None:
    """Commit the open transaction; the leader may have refused its record.

    Raises:
        ScheduleNotFollowedError: the client does not know whether the record is committed.
    """
    outcome = writer.commit()
    if outcome == INFO:
        raise ScheduleNotFollowedError(f"the client does not know whether {value} is committed")
    ending = "has committed" if outcome == OK else "could not commit, and has aborted,"
    context.note(f"the application {ending} {value}")


def _await_markers(
    context: ScheduleContext, writer: NamedTransactions, committed: int, says: str
) -> None:
    """Wait until the markers of two transactions follow a committed record, and record a note.

    The number of records in the second transaction depends on the client: librdkafka aborts at
    once, but Java's producer first retries records without a response. A coordinator responds to an
    EndTxn when it has decided, and writes the markers later. Only then the transaction has ended:
    before, a leader that asks for it gets CONCURRENT_TRANSACTIONS (KIP-890).

    Args:
        committed: offset of the last record of the first transaction.
    """
    leader = context.replicas[0]
    end = committed + 3 + writer.appended
    await_replicas(
        context,
        lambda seen: seen[leader].leo == end,
        what=f"broker {leader} to have two markers after offset {committed}, and to end at {end}",
        limit_s=_ARRIVES_S,
        brokers=(leader,),
    )
    if find_release(context.plan.kafka).number >= _DESCRIBES:
        coordinator = context.probe.partition(COORDINATOR_TOPICS[0], 0).leader
        context.until(
            lambda: {state.state for state in context.probe.transactions(coordinator)},
            lambda states: not states & _ENDING,
            what="the coordinator to have ended each transaction",
            limit_s=_ARRIVES_S,
        )
    context.note(says, leader)


def _await_late_answer(context: ScheduleContext, messages: CaughtMessages, request: str) -> None:
    """Wait for the response to a late request, which its client does not get.

    Raises:
        ScheduleNotFollowedError: the broker did not compare the request with the transaction's
            state: it refused the request for another reason.
    """
    await_event(messages, "discarded", limit_s=_ARRIVES_S)
    errors = {row["cause"] for row in messages.events("discarded") if row["cause"]}
    if errors - _BY_STATE:
        raise ScheduleNotFollowedError(
            f"{request} was refused with {', '.join(sorted(errors))}, and not because it was late"
        )
    verdict = f"refused it: {', '.join(sorted(errors))}" if errors else "accepted it"
    context.note(f"a broker has received {request}, and {verdict}", step=1)


def _await_event(
    context: ScheduleContext,
    messages: CaughtMessages,
    event: str,
    says: str,
    *,
    limit_s: float = _ARRIVES_S,
) -> None:
    """Wait until the relay reports an event about a message, and record a note."""
    await_event(messages, event, limit_s=limit_s)
    context.note(says)
