"""Stories that need the relay, which blocks links or holds messages."""

import contextlib
import time
from typing import Final

from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import RelayRule, between
from highwater.harness.base.errors import HarnessError
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.hw_lag_window import await_window, hold_window
from highwater.nemesis.stories.failovers import (
    GAP_S,
    await_turns,
    commit_victim,
    kill_leader,
    note_window,
    require_hw_behind,
    require_session,
)
from highwater.nemesis.stories.helpers import (
    SUCCESSOR,
    VICTIM,
    await_answer,
    await_hw_on_disk,
    await_leader,
    await_leads,
    missed_if_late,
    settle,
)
from highwater.nemesis.stories.story import FETCH_WAIT_S, StoryNeeds, story

_LEADS_S: Final = 15.0
_ANSWER_S: Final = 10.0

_CUT_OFF: Final = """
    settle m0 m1 m2
    send m3 to A
    fetch B C B C
    pause A B
    expire A for B
    let C
    expire B for C
    let C
    send m4 to C
    heal
"""
"""The story in the model's script language. The script pauses brokers instead of isolating them;
for C the effect is the same."""

_HELD_FETCH: Final = """
    settle m0 m1 m2
    checkpoint A
    send m3 to A
    fetch B C B C
    kill A
    expire A for B
    let B
    follow C
    kill B
    expire B for C
    let C
    heal
"""


@story(
    "cut-off",
    _CUT_OFF,
    needs=StoryNeeds(wire="nodes"),
    outcome=(
        "Up to 0.10.2 the record is lost, but A keeps it. With later releases no replica loses it."
    ),
)
def cut_off(context: ScheduleContext) -> None:
    """Lose a committed record: the network isolates A, then B; C leads without the record.

    The relay resets links: otherwise a controller or follower up to 0.10.2 would wait
    ``request.timeout.ms`` (30 s) for a response.
    """
    network = network_of(context)
    a, b, survivor = context.replicas
    offset = settle(context)
    began_ns = time.monotonic_ns()
    with contextlib.ExitStack() as stack:
        stack.enter_context(hold_window(network, context.topic, 0, (b, survivor), offset=offset))
        context.send(VICTIM, leader=a)
        with missed_if_late():
            followers = (b, survivor)
            seen = await_window(context.probe, context.topic, 0, followers, offset=offset)
        note_window(context, seen, offset)
        limit_s = 2 * FETCH_WAIT_S
        with missed_if_late():
            network.await_held("hw", b, survivor, since_ns=began_ns, limit_s=limit_s)
        context.note(f"the relay holds responses with that HW for brokers {b} and {survivor}")
        stack.enter_context(network.under(RelayRule(kind="reset", links=between([b], [survivor]))))
        context.note(f"brokers {b} and {survivor} are isolated from each other", b)
        began = context.clock()
        context.nemesis.inject("reset", a)
        context.hold(began + GAP_S - context.clock())
        context.nemesis.inject("reset", b)
        require_session(context, a, f"broker {b} was isolated")
        await_turns(context, b, survivor)
        _send_successor(context, survivor)


@story(
    "held-fetch",
    _HELD_FETCH,
    needs=StoryNeeds(wire="nodes"),
    outcome=(
        "Up to 0.10.2 the record is lost. Later releases keep it, unless their protocol or "
        "message format is older than 0.11."
    ),
)
def held_fetch(context: ScheduleContext) -> None:
    """Lose a committed record although the new leader B runs: C truncates it, then B is killed.

    In ``loss`` B is dead when C begins to follow B. From 0.11 on C asks for the end of its epoch,
    gets no response, and keeps the record. Here B responds. But without leader epochs B does not
    know the end of C's epoch, so C truncates its log to its HW. Then the relay holds C's fetches,
    so that C does not get the record before B is killed.
    """
    network = network_of(context)
    a, b, survivor = context.replicas
    offset = settle(context)
    await_hw_on_disk(context, a, offset)
    commit_victim(context, offset)
    kill_leader(context, offset)
    require_hw_behind(context, a, offset)
    began_ns = time.monotonic_ns()
    with network.hw_held(context.topic, 0, survivor, above=offset - 1), missed_if_late():
        await_leader(context, b, limit_s=_LEADS_S)
        network.await_held("hw", survivor, since_ns=began_ns, limit_s=_LEADS_S)
        leo = context.replica(survivor).leo
        context.note(
            f"broker {survivor} follows broker {b}; its log ends at {leo}",
            survivor,
        )
        context.nemesis.inject("kill", b)
    await_leader(context, survivor, limit_s=_LEADS_S)


def network_of(context: ScheduleContext) -> Network:
    """Return the relay between the nodes.

    Raises:
        HarnessError: the cluster runs without the relay.
    """
    if context.cluster.network is None:
        raise HarnessError("this story needs the relay between the nodes")
    return context.cluster.network


def _send_successor(context: ScheduleContext, survivor: int) -> None:
    """Write to C directly, because A and B do not know that C leads."""
    await_leads(context, survivor, limit_s=_LEADS_S)
    context.direct.send(SUCCESSOR, 0, address=context.cluster.brokers[survivor].address)
    answer = await_answer(context, SUCCESSOR, limit_s=_ANSWER_S)
    context.note(f"broker {survivor} has {SUCCESSOR} at offset {answer.offset}", survivor)
