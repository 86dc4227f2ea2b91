"""The story of a late fetch response from an earlier leader epoch.

A leader's fetch response may contain the offset at which the follower's log diverges (KIP-595,
since 2.8), and the follower truncates its log to this offset. Up to 3.9.0 and in 4.0.0 a follower
does not compare the leader epoch of the response (KAFKA-18991,
``AbstractFetcherThread.processFetchRequest``). So it also accepts a late response, if it follows
the same leader again and fetches from the same offset. It then truncates records that it has
fetched from another leader since then.

The fetcher thread that waits for the response must not stop. It stops when it has no partition to
fetch. So B always leads a second partition, which A follows.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.base.waiting import NotYetError
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_answer,
    await_event,
    await_leads,
    await_leo,
    await_replicas,
    move_leader,
    settle,
)
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

ALONE: Final = "x"
"""An uncommitted record that only A has. It makes the logs of A and B diverge."""

_LIMIT_S: Final = 10.0
_ADDED_S: Final = 0.3
"""The longest time until a broker that knows its leader has added the partition to a fetcher."""

_CUTS_ON_FETCH: Final = (2, 8)


def _asks_first(release: Release) -> str:
    if release.number >= _CUTS_ON_FETCH:
        return ""
    return "its followers ask for a truncation offset before they fetch (KIP-595)"


@story(
    "late-answer",
    HazardEnding(
        hazard="KAFKA-18991",
        ending=Prediction(lost=frozenset({VICTIM})),
        uncommitted=frozenset({ALONE}),
    ),
    needs=StoryNeeds(wire="nodes", partitions=2),
    outcome=("Up to 3.9.0, and on 4.0.0, a committed record is lost. Later releases keep it."),
    min_isr_most=3,
    why_not=_asks_first,
)
def late_answer(context: ScheduleContext) -> None:
    """Lose a committed record without a failure: a response of an old epoch makes A truncate it."""
    a, b, c = context.replicas
    committed = settle(context)
    with contextlib.ExitStack() as ending:
        answer = ending.enter_context(_diverging_answer(context, committed))
        _move(context, c)
        await_leo(context, committed, f"broker {a} to have truncated {ALONE}", a, limit_s=_LIMIT_S)
        _send(context, VICTIM, c)
        await_replicas(
            context,
            lambda seen: (
                seen[c].hw == committed + 1
                and all(state.leo == committed + 1 for state in seen.values())
            ),
            what=f"every replica to have {VICTIM}, and broker {c} to have committed it",
            limit_s=_LIMIT_S,
        )
        context.note(
            f"every replica has {VICTIM} at offset {committed}; the record is committed", c
        )
        fetches = ending.enter_context(
            context.intercept(f"hold Fetch broker-{a}>broker-{b} times=0")
        )
        _move(context, b)
        context.hold(_ADDED_S)
        answer.release("schedule")
        context.note(f"broker {a} gets the response that broker {b} sent before broker {c} led", a)
        await_event(fetches, "caught", limit_s=_LIMIT_S)
        _require_followed(context, fetches)
        leo = context.replica(a).leo
        context.note(f"broker {a} fetches again; its log ends at {leo}", a)
        _move(context, a)


@contextlib.contextmanager
def _diverging_answer(context: ScheduleContext, committed: int) -> Iterator[CaughtMessages]:
    """Let A's log diverge, and yield B's held response that contains the diverging offset."""
    a, b, c = context.replicas
    with contextlib.ExitStack() as holds:
        of_followers = [
            holds.enter_context(context.intercept(f"hold Fetch broker-{n}>broker-{a} times=0"))
            for n in (b, c)
        ]
        for fetches in of_followers:
            await_event(fetches, "caught", limit_s=_LIMIT_S)
        context.note(f"the relay holds responses of broker {a} to brokers {b} and {c}")
        _send(context, ALONE, a, answered=False)
        await_leo(context, committed + 1, f"broker {a} to append {ALONE}", a, limit_s=_LIMIT_S)
        context.note(f"only broker {a} has {ALONE}, at offset {committed}", a)
        of_a = holds.enter_context(context.intercept(f"hold Fetch broker-{a}>broker-{b} times=0"))
        await_event(of_a, "caught", limit_s=_LIMIT_S)
        epoch = _move(context, b)
        with context.intercept(f"hold Fetch.answer broker-{b}>broker-{a} partition=0") as answer:
            holds.close()
            await_event(answer, "caught", limit_s=_LIMIT_S)
            context.note(
                f"the relay holds the response of broker {b} to broker {a}: their logs diverge "
                f"at offset {committed}, in epoch {epoch}",
                a,
            )
            yield answer


def _send(context: ScheduleContext, value: str, broker: int, *, answered: bool = True) -> None:
    """Send a record once, to a given broker: a client that looks for the leader may retry."""
    context.direct.send(value, 0, address=context.cluster.brokers[broker].address)
    if answered:
        await_answer(context, value, limit_s=_LIMIT_S)


def _move(context: ScheduleContext, broker: int) -> int:
    """Move leadership to a broker; wait until A and this broker know it; return the epoch."""
    epoch = move_leader(context, broker)
    await_leads(context, broker, limit_s=_LIMIT_S)
    a = context.replicas[0]

    def look() -> None:
        if not context.probe.knows_epoch(a, context.topic, 0, epoch):
            raise NotYetError("the broker refuses a fetch in the new epoch")

    what = f"broker {a} to know that broker {broker} leads in epoch {epoch}"
    context.until(look, what=what, limit_s=_LIMIT_S)
    context.note(f"broker {broker} leads in epoch {epoch}, as the schedule requires", broker)
    return epoch


def _require_followed(context: ScheduleContext, fetches: CaughtMessages) -> None:
    """Raise an error if A got the late response before it followed B again.

    If A followed B, A's next fetch contains the partition: a fetch contains partitions whose leader
    epoch has changed.

    Raises:
        ScheduleNotFollowedError: A did not follow B again.
    """
    topic = {context.topic, network_of(context).topic_id(context.topic)}
    [first, *_] = fetches.events("caught")
    if first["topic"] not in topic or first["partition"] != 0:
        raise ScheduleNotFollowedError(
            f"broker {context.replicas[0]} got the response before it followed its leader again"
        )
