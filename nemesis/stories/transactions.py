"""Stories about transactions: of an EndTxn that arrives in the transaction after its own.

The first EndTxn of a transaction is slow on its way to the coordinator. Its client gives it up,
asks again on another connection, and is told that the transaction is committed. It begins the next
one, and the first EndTxn arrives. Up to KIP-890 it bears nothing that tells one transaction of a
producer from the next (KAFKA-17754), and librdkafka's requests are so on every release.
"""

from typing import Final

from highwater.clusters.core.interfaces import CaughtMessages
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.runs.history import OK
from highwater.nemesis.context import (
    ScheduleContext,
    ScheduleNotFollowedError,
    TransactionalClient,
)
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LATE_END_TXN: Final = "KAFKA-17754"
"""The hazard of the first story, in the catalogue."""

_WRITER: Final = "writer"
_HOLD_FIRST: Final = f"hold EndTxn client:{_WRITER}>*"
_ARRIVES_S: Final = 15.0
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
        _await_arrival(scene, end_txn)
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


def _await_arrival(scene: ScheduleContext, end_txn: CaughtMessages) -> None:
    """Wait until the coordinator has answered the EndTxn that was held, as the wire has seen."""
    try:
        end_txn.await_event("discarded", limit_s=_ARRIVES_S)
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(error.message) from error
    scene.note("the coordinator has answered the first EndTxn of m2")
