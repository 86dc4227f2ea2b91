"""The story of a replica that loses its disk while its leader requests to add it to the ISR.

A leader asks the controller to add B to the ISR, because B has every record. Before the request
arrives, B loses its disk and starts again with an empty disk. If the controller checks only that B
is alive, it adds B to the ISR, and B may become leader. Since KIP-903 the leader's request contains
the broker epoch of B's registration. A KRaft controller refuses an old epoch; a controller with
ZooKeeper does not (KAFKA-14139).
"""

from typing import Final

from highwater.clusters.relay.network import CaughtMessages
from highwater.clusters.relay.rules import RelayRule, between
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import (
    SETTLED,
    VICTIM,
    await_leader,
    await_replicas,
    settle,
)
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 30.0
_LEADERS_ASK: Final = (2, 7)
"""The first release whose leaders ask the controller to change an ISR (KIP-497)."""


def _asks_nobody(release: Release) -> str:
    return (
        ""
        if release.number >= _LEADERS_ASK
        else "its leaders do not ask the controller to change an ISR (KIP-497)"
    )


@story(
    "replaced-disk",
    HazardEnding(hazard="KAFKA-14139", ending=Prediction(lost=frozenset((*SETTLED, VICTIM)))),
    needs=StoryNeeds(wire="nodes"),
    outcome=(
        "On ZooKeeper every record is lost. On KRaft no record is lost, because the controller "
        "knows that B has restarted."
    ),
    min_isr_most=2,
    why_not=_asks_nobody,
)
def replaced_disk(context: ScheduleContext) -> None:
    """Lose all records under clean elections: B is in the ISR with an empty disk, and leads."""
    network = network_of(context)
    a, b, c = context.replicas
    settle(context)
    context.nemesis.inject("stop", b)
    context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: state.isr == (a, c),
        what=f"broker {b} to be out of the ISR",
        limit_s=_LIMIT_S,
    )
    offset = context.send(VICTIM, leader=a)
    with context.intercept(f"hold AlterPartition broker-{a}>* partition=0 times=0") as requests:
        context.nemesis.heal(b)
        await_replicas(
            context,
            lambda seen: all(state.leo > offset for state in seen.values()),
            what=f"every replica to have {VICTIM}",
            limit_s=_LIMIT_S,
        )
        _await_event(context, requests, "caught")  # broker A repeats its request after a while
        context.note(f"broker {b} has every record, and broker {a} asks to add it to the ISR", b)
        with network.under(RelayRule(kind="cut", links=between([a], [b]))):
            context.note(f"broker {b} no longer fetches from broker {a}", b)
            context.nemesis.inject("wipe", b)
            context.nemesis.heal(b)
            await_replicas(
                context,
                lambda seen: seen[b].leo == 0,
                what=f"broker {b} to have the controller's decision, and an empty log",
                limit_s=_LIMIT_S,
                brokers=(b,),
            )
            context.note(f"broker {b} has restarted, with an empty disk", b)
            requests.let_pass()
            _await_event(context, requests, "answered", "discarded")
            isr = context.state().isr
            context.note(f"the controller has responded; the ISR is {', '.join(map(str, isr))}")
            context.nemesis.inject("kill", a)
            await_leader(context, b, c, limit_s=_LIMIT_S)


def _await_event(context: ScheduleContext, messages: CaughtMessages, *events: str) -> None:
    context.until(
        lambda: messages.events(*events),
        bool,
        what=f"the relay to report {' or '.join(events)} of a request to change the ISR",
        limit_s=_LIMIT_S,
    )
