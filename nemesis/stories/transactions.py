"""Stories about transactions: of a message that counts for the transaction after its own.

``torn-transaction``: the first EndTxn of a transaction is slow on its way to the coordinator. Its
client gives it up, asks again on another connection, and is told that the transaction is committed.
It begins the next one, and the first EndTxn arrives. Up to KIP-890 it bears nothing that tells one
transaction of a producer from the next (KAFKA-17754), and librdkafka's requests are so on every
release.

``reused-sequence``: the answer about a record is lost with its connection, so that the record may
be in the log or not. While the client waits before it asks again, the application aborts.
librdkafka drops the record, as one that was never sent, and gives its sequence number to the next
(``rd_kafka_toppar_purge_queues``). If the first one is in the log, the leader takes the next one
for the same, acknowledges it and does not append it.
"""

from typing import Final

from highwater.clusters.core.interfaces import CaughtMessages
from highwater.harness.runs.history import OK
from highwater.nemesis.context import (
    ScheduleContext,
    ScheduleNotFollowedError,
    TransactionalClient,
)
from highwater.nemesis.stories.helpers import missed_if_late
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LATE_END_TXN: Final = "KAFKA-17754"
"""The hazard of the first story, in the catalogue."""

_WRITER: Final = "writer"
_HOLD_FIRST: Final = f"hold EndTxn client:{_WRITER}>*"
_ARRIVES_S: Final = 15.0
_NOTICED_S: Final = 0.1
"""After so long a client knows that its connection is gone; it asks again after a second."""

_NEEDS: Final = StoryNeeds(wire="clients", transactions=True)


@story(
    "torn-transaction",
    HazardEnding(hazard=LATE_END_TXN, ending=Prediction(others=frozenset({("G1a", "m3")}))),
    needs=_NEEDS,
    outcome=(
        "The application aborts its transaction, and read_committed readers have its record: with"
        " this client, librdkafka, on every release."
    ),
    min_isr_most=3,
)
def torn_transaction(scene: ScheduleContext) -> None:
    """Commit a transaction that the application aborts: by the EndTxn of the one before."""
    _late_end_txn(scene, renewed=False)


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
def fenced_transaction(scene: ScheduleContext) -> None:
    """Guard against the same EndTxn: after a commit that was slow, a new producer goes on."""
    _late_end_txn(scene, renewed=True)


@story(
    "reused-sequence",
    HazardEnding(hazard="reused-sequence", ending=Prediction(lost=frozenset({"m3"}))),
    needs=_NEEDS,
    outcome=(
        "The record of a committed transaction is nowhere: with this client, librdkafka, on every"
        " release."
    ),
    min_isr_most=3,
)
def reused_sequence(scene: ScheduleContext) -> None:
    """Lose a committed record: the sequence number of one that was aborted before is used again."""
    _after_an_abort(scene, flushed=False)


@story(
    "flushed-abort",
    HazardEnding(hazard="reused-sequence", ending=Prediction()),
    needs=_NEEDS,
    outcome="Every release keeps it: the client knows what became of each record that it sent.",
    min_isr_most=3,
)
def flushed_abort(scene: ScheduleContext) -> None:
    """Guard against the same loss: wait for the answer about each record, and then abort."""
    _after_an_abort(scene, flushed=True)


def _after_an_abort(scene: ScheduleContext, *, flushed: bool) -> None:
    writer = scene.transactional(_WRITER)
    _commit(scene, writer, "m0", "m1")
    with scene.intercept(f"drop Produce.answer *>client:{_WRITER}") as answer:
        writer.begin()
        writer.send_on("m2", 0)
        _await_event(scene, answer, "dropped", "the answer to m2 is lost, and its connection")
    if flushed:
        writer.flush()
        scene.note("the client has asked again, and has an answer about m2")
    else:
        scene.hold(_NOTICED_S)
        scene.note("the client is to ask again in a moment")
    scene.note(f"the application aborts m2: {writer.abort() or 'done'}")
    _commit(scene, writer, "m3")


def _late_end_txn(scene: ScheduleContext, *, renewed: bool) -> None:
    writer = scene.transactional(_WRITER)
    _commit(scene, writer, "m0", "m1")
    with scene.intercept(_HOLD_FIRST) as end_txn:
        _commit(scene, writer, "m2")
        if not end_txn.caught:
            raise ScheduleNotFollowedError("the EndTxn of m2 was not held")
        scene.note("its client was told that m2 is committed, by a second EndTxn")
        if renewed:
            writer.renew()
            scene.note("a new producer has taken the place of the writer")
        writer.begin()
        offset = writer.send("m3", 0)
        scene.note(f"m3 is at offset {offset}, in a transaction that is open")
        end_txn.release("schedule")
        says = "the coordinator has answered the first EndTxn of m2"
        _await_event(scene, end_txn, "discarded", says)
    refusal = writer.abort()
    scene.note(f"the application aborts m3: {refusal or 'done'}")


def _commit(scene: ScheduleContext, writer: TransactionalClient, *values: str) -> None:
    writer.begin()
    for value in values:
        writer.send(value, 0)
    outcome = writer.commit()
    if outcome != OK:
        raise ScheduleNotFollowedError(
            f"{', '.join(values)} were to be committed, but the outcome is {outcome}"
        )
    scene.note(f"the application has committed {', '.join(values)}")


def _await_event(scene: ScheduleContext, messages: CaughtMessages, event: str, says: str) -> None:
    """Wait until something has happened to a message, as the wire has seen, and note it."""
    with missed_if_late():
        messages.await_event(event, limit_s=_ARRIVES_S)
    scene.note(says)
