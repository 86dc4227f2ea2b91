"""Stories about transactions: of a message that counts for the transaction after its own.

``torn-transaction``: the first EndTxn of a transaction is slow on its way to the coordinator. Its
client gives it up, asks again on another connection, and the commit is acknowledged.
It begins the next one, and the first EndTxn arrives. Up to KIP-890 it bears nothing that tells one
transaction of a producer from the next (KAFKA-17754), and librdkafka's requests are so on every
release.

``reused-sequence``: the answer about a record is lost with its connection, so that the record may
be in the log or not. While the client waits before it asks again, the application aborts.
librdkafka drops the record, as one that was never sent, and gives its sequence number to the next
(``rd_kafka_toppar_purge_queues``). If the first one is in the log, the leader takes the next one
for the same, acknowledges it and does not append it.

``hanging-transaction``: a Produce is slow on its way to the leader. Its client gives it up, and the
application aborts the transaction, whose marker is in the log when the Produce arrives. Up to 3.5
the leader appends it (KAFKA-14402), and that opens a transaction of which no coordinator knows:
no client ends it, and read_committed readers never get past it. From 3.6 on the leader asks the
coordinator first (KIP-890, ``transaction.partition.verification.enable``).

``late-produce``: the same Produce arrives in the next transaction of its producer. That is open, so
that every release appends it there; it has the sequence number that librdkafka gives to the next
record, which the leader then takes for the same. The commit is of the record that was aborted.

Java's producer sends again what has no answer before it aborts, so that these two Produce requests
come late as copies of what is in the log; and from 4.0 on, with brokers of 4.0, each of its
transactions has an epoch of its own.
"""

from typing import Final

from highwater.clusters.core.interfaces import CaughtMessages
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.history import INFO, OK
from highwater.nemesis.context import (
    ScheduleContext,
    ScheduleNotFollowedError,
    TransactionalClient,
)
from highwater.nemesis.stories.helpers import await_replicas, missed_if_late
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LATE_END_TXN: Final = "KAFKA-17754"
"""The hazard of the first story, in the catalogue."""

LATE_PRODUCE: Final = "KAFKA-14402"
"""That of ``hanging-transaction``."""

NEXT_TRANSACTION: Final = "late-produce"
"""That of ``late-produce``."""

_WRITER: Final = "writer"
_OTHER: Final = "other"
_HOLD_FIRST: Final = f"hold EndTxn client:{_WRITER}>*"
_ARRIVES_S: Final = 15.0
_NOTICED_S: Final = 0.1
"""After so long a client knows that its connection is gone; it asks again after a second."""

_HOLD_PRODUCE: Final = f"hold Produce client:{_WRITER}>*"
_GIVES_UP_S: Final = 10.0
"""So long a client waits at most for an answer about a record; its setting is 4 s."""

_NEEDS: Final = StoryNeeds(wire="clients", transactions=True)


@story(
    "torn-transaction",
    HazardEnding(hazard=LATE_END_TXN, ending=Prediction(others=frozenset({("G1a", "m3")}))),
    needs=_NEEDS,
    outcome=(
        "The application aborts its transaction, and read_committed readers have its record: with"
        " librdkafka on every release; with Java's clients, unless they and the brokers are of 4.0."
    ),
    min_isr_most=3,
)
def torn_transaction(context: ScheduleContext) -> None:
    """Commit a transaction that the application aborts: by the EndTxn of the one before."""
    _late_end_txn(context, renewed=False)


@story(
    "fenced-transaction",
    HazardEnding(hazard=LATE_END_TXN, ending=Prediction()),
    needs=_NEEDS,
    outcome=(
        "Nothing is torn on any release: a new producer has a new epoch, and the EndTxn of the old"
        " one is refused."
    ),
    min_isr_most=3,
)
def fenced_transaction(context: ScheduleContext) -> None:
    """Guard against the same EndTxn: after a commit that was slow, a new producer goes on."""
    _late_end_txn(context, renewed=True)


@story(
    "reused-sequence",
    HazardEnding(hazard="reused-sequence", ending=Prediction(lost=frozenset({"m3"}))),
    needs=_NEEDS,
    outcome=(
        "The record of a committed transaction is nowhere: with librdkafka, on every release."
    ),
    min_isr_most=3,
)
def reused_sequence(context: ScheduleContext) -> None:
    """Lose a committed record: the sequence number of one that was aborted before is used again."""
    _after_an_abort(context, flushed=False)


@story(
    "flushed-abort",
    HazardEnding(hazard="reused-sequence", ending=Prediction()),
    needs=_NEEDS,
    outcome="Every release keeps it: the client knows what became of each record that it sent.",
    min_isr_most=3,
)
def flushed_abort(context: ScheduleContext) -> None:
    """Guard against the same loss: wait for the answer about each record, and then abort."""
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
        "Up to 3.5 a transaction is open for ever, and read_committed readers get nothing that is"
        " written after it; later brokers refuse its record."
    ),
    min_isr_most=3,
)
def hanging_transaction(context: ScheduleContext) -> None:
    """Open a transaction that never ends: by a record that arrives after the abort of its own."""
    writer = context.transactional(_WRITER)
    committed = _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_PRODUCE) as produce:
        writer.begin()
        writer.send_on("m2", 0)
        says = "the client has no answer about m2, and gives that connection up"
        _await_event(context, produce, "client-gone", says, limit_s=_GIVES_UP_S)
        refusal = writer.abort()
        context.note(f"the application aborts m2: {refusal or 'done'}")
        _await_markers(context, writer, committed, "the marker of that abort is in the log")
        produce.release("schedule")
        _await_event(context, produce, "discarded", "the leader has answered the Produce of m2")
    _commit(context, context.transactional(_OTHER), "m3")


@story(
    "late-produce",
    HazardEnding(
        hazard=NEXT_TRANSACTION,
        ending=Prediction(lost=frozenset({"m3"}), others=frozenset({("G1a", "m2")})),
    ),
    needs=_NEEDS,
    outcome=(
        "The commit is of a record that the application had aborted, and the record that it commits"
        " is nowhere: with librdkafka, on every release."
    ),
    min_isr_most=3,
)
def late_produce(context: ScheduleContext) -> None:
    """Commit a record that was aborted, in the place of another: by a Produce that came late."""
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
        "Nothing happens from 3.6 on: a new producer has a new epoch, and the coordinator refuses"
        " the old one. Up to 3.5 no leader asks, and the record that was aborted is committed."
    ),
    min_isr_most=3,
)
def fenced_produce(context: ScheduleContext) -> None:
    """Guard against the same Produce: after an abort without an answer, a new producer goes on."""
    _in_the_next(context, renewed=True)


def _in_the_next(context: ScheduleContext, *, renewed: bool) -> None:
    writer = context.transactional(_WRITER)
    committed = _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_PRODUCE) as late:
        writer.begin()
        writer.send_on("m2", 0)
        says = "the client has no answer about m2, and gives that connection up"
        _await_event(context, late, "client-gone", says, limit_s=_GIVES_UP_S)
        context.note(f"the application aborts m2: {writer.abort() or 'done'}")
        _await_markers(context, writer, committed, "the marker of that abort is in the log")
        if renewed:
            writer.renew()
            context.note("a new producer has taken the place of the writer")
        with context.intercept(_HOLD_PRODUCE) as following:
            writer.begin()
            writer.send_on("m3", 0)
            _await_event(context, following, "caught", "m3 is on its way, in the next transaction")
            late.release("schedule")
            _await_event(context, late, "discarded", "the leader has answered the Produce of m2")
        _try_to_end(context, writer, "m3")


def _after_an_abort(context: ScheduleContext, *, flushed: bool) -> None:
    writer = context.transactional(_WRITER)
    _commit(context, writer, "m0", "m1")
    with context.intercept(f"drop Produce.answer *>client:{_WRITER}") as answer:
        writer.begin()
        writer.send_on("m2", 0)
        _await_event(context, answer, "dropped", "the answer to m2 is lost, and its connection")
    if flushed:
        writer.flush()
        context.note("the client has asked again, and has an answer about m2")
    else:
        context.hold(_NOTICED_S)
        context.note("the client is to ask again in a moment")
    context.note(f"the application aborts m2: {writer.abort() or 'done'}")
    _commit(context, writer, "m3")


def _late_end_txn(context: ScheduleContext, *, renewed: bool) -> None:
    writer = context.transactional(_WRITER)
    _commit(context, writer, "m0", "m1")
    with context.intercept(_HOLD_FIRST) as end_txn:
        _commit(context, writer, "m2")
        if not end_txn.caught:
            raise ScheduleNotFollowedError("the EndTxn of m2 was not held")
        context.note("its client got the response that m2 is committed, to a second EndTxn")
        if renewed:
            writer.renew()
            context.note("a new producer has taken the place of the writer")
        writer.begin()
        offset = writer.send("m3", 0)
        context.note(f"m3 is at offset {offset}, in a transaction that is open")
        end_txn.release("schedule")
        says = "the coordinator has answered the first EndTxn of m2"
        _await_event(context, end_txn, "discarded", says)
    refusal = writer.abort()
    context.note(f"the application aborts m3: {refusal or 'done'}")


def _commit(context: ScheduleContext, writer: TransactionalClient, *values: str) -> int:
    """Commit some records; return the offset of the last one."""
    writer.begin()
    offset = [writer.send(value, 0) for value in values][-1]
    _end(context, writer, *values)
    return offset


def _end(context: ScheduleContext, writer: TransactionalClient, *values: str) -> None:
    """Commit what is open, these records."""
    outcome = writer.commit()
    if outcome != OK:
        raise ScheduleNotFollowedError(
            f"{', '.join(values)} were to be committed, but the outcome is {outcome}"
        )
    context.note(f"the application has committed {', '.join(values)}")


def _try_to_end(context: ScheduleContext, writer: TransactionalClient, value: str) -> None:
    """Commit what is open, a record that the leader may have refused."""
    outcome = writer.commit()
    if outcome == INFO:
        raise ScheduleNotFollowedError(f"it is not known whether {value} is committed")
    ending = "has committed" if outcome == OK else "could not commit, and has aborted,"
    context.note(f"the application {ending} {value}")


def _await_markers(
    context: ScheduleContext, writer: TransactionalClient, committed: int, says: str
) -> None:
    """Wait for the markers of two transactions behind a record, and note it.

    The second one has the records that were acknowledged: librdkafka aborts at once, and Java first
    sends again what has no response.
    A coordinator answers an EndTxn as soon as it has decided, and writes the markers then.
    """
    leader = context.replicas[0]
    end = committed + 3 + writer.appended
    await_replicas(
        context,
        lambda seen: seen[leader].leo == end,
        what=f"broker {leader} to have two markers behind offset {committed}, and to end at {end}",
        limit_s=_ARRIVES_S,
        brokers=(leader,),
    )
    context.note(says, leader)


def _await_event(
    context: ScheduleContext,
    messages: CaughtMessages,
    event: str,
    says: str,
    *,
    limit_s: float = _ARRIVES_S,
) -> None:
    """Wait until something has happened to a message, as the wire has seen, and note it."""
    with missed_if_late():
        messages.await_event(event, limit_s=limit_s)
    context.note(says)
