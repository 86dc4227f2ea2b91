"""Replicas that come and go, and reassignments that are interrupted, against a plain model.

The searched model has a mask for each decision. Here the controller keeps the whole partition for
each of its decisions, as KRaft's metadata log does, and a broker compares the partition that it
knows with a newer one.
"""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.state_layout import get
from tests.support.model_dsl import BROKERS, Play

PLAYS = settings(max_examples=150, deadline=None)
SETS = ("A", "B", "C", "AB", "BA", "AC", "CA", "BC", "CB", "ABC")

Entry = tuple[int, str]
"""Leader epoch and record."""


@dataclass(frozen=True)
class Partition:
    """The partition, as one decision of the controller has it."""

    replicas: frozenset[str]
    leader: str = "A"
    isr: frozenset[str] = frozenset("ABC")
    epoch: int = 0
    adding: frozenset[str] = frozenset()
    removing: frozenset[str] = frozenset()
    first: str = ""

    @property
    def changing(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass
class Broker:
    """A broker, the decision that it knows, and as a leader what its followers have."""

    name: str
    knows: int = 0
    log: list[Entry] = field(default_factory=list)
    ends: dict[str, int | None] = field(default_factory=dict)


class PlainKraft:
    """KRaft as of 3.9.2: reassignment, merged deltas, fetches; nobody fails."""

    def __init__(self, *, interrupts: bool) -> None:
        self.interrupts = interrupts
        self.decisions = [Partition(frozenset("ABC"))]
        self.brokers = {name: Broker(name) for name in BROKERS}
        self.brokers["A"].ends = {"B": 0, "C": 0}
        self.asked = self.sent = 0

    @property
    def now(self) -> Partition:
        return self.decisions[-1]

    def known(self, name: str) -> Partition:
        return self.decisions[self.brokers[name].knows]

    def leads(self, name: str) -> bool:
        return name in self.known(name).replicas and self.known(name).leader == name

    def can(self, verb: str, what: str) -> bool:
        if verb == "reassign":
            return self.can_reassign(what)
        if verb == "cancel":
            return self.interrupts and self.now.changing and what == self.now.leader
        return self.can_fetch(what) if verb == "fetch" else self.can_learn(what, verb == "skip")

    def do(self, verb: str, what: str) -> None:
        if verb in {"learn", "skip"}:
            self.learn(what, verb == "skip")
        else:
            getattr(self, verb)(what)

    def can_reassign(self, target: str) -> bool:
        asked, least = self.requested(target), min(target) == target[0]
        new = replace(asked, first=self.now.first) != self.now
        free = self.interrupts or not self.now.changing
        return self.asked < 3 and free and new and (least or bool(asked.removing))

    def requested(self, target: str) -> Partition:
        """The partition as a request leaves it. An empty set does not replace an older one."""
        now, wanted = self.now, frozenset(target)
        return replace(
            now,
            replicas=now.replicas | wanted,
            adding=wanted - now.replicas or now.adding,
            removing=now.replicas - wanted or now.removing,
            first=target[0],
        )

    def reassign(self, target: str) -> None:
        self.asked += 1
        asked = self.requested(target)
        self.decide(self.completed(asked) or asked)

    def cancel(self, _: str) -> None:
        now = self.now
        back = replace(
            now,
            replicas=now.replicas - now.adding,
            isr=now.isr - now.adding,
            epoch=now.epoch + bool(now.adding),
            adding=frozenset(),
            removing=frozenset(),
        )
        self.decide(back)

    def decide(self, partition: Partition) -> None:
        """Brokers are told of other replicas, and not of the reassignment's sets alone."""
        if partition.replicas == self.now.replicas:
            self.decisions[-1] = partition
        else:
            self.decisions.append(partition)

    def completed(self, asked: Partition) -> Partition | None:
        """The partition without what goes, if all that stay are in sync."""
        stays, isr = asked.replicas - asked.removing, asked.isr - asked.removing
        if not asked.changing or not isr or not stays <= isr:
            return None
        able = [name for name in (asked.first, *BROKERS) if name in isr]
        leader = asked.leader if asked.leader in stays else able[0]
        return Partition(stays, leader, isr, asked.epoch + bool(asked.removing))

    def can_learn(self, name: str, all_at_once: bool) -> bool:
        behind = len(self.decisions) - 1 - self.brokers[name].knows
        return behind > (1 if all_at_once else 0)

    def learn(self, name: str, all_at_once: bool) -> None:
        broker, old = self.brokers[name], self.known(name)
        last = len(self.decisions) - 1
        broker.knows = last if all_at_once else broker.knows + 1
        if name not in old.replicas:  # nothing happens to it until it has a replica again
            while broker.knows < last and name not in self.known(name).replicas:
                broker.knows += 1
        new = self.known(name)
        if name not in new.replicas:
            broker.log.clear()
        if not self.leads(name):
            broker.ends = {}
            return
        led = name in old.replicas and old.leader == name
        kept = (old.replicas & new.replicas) if led else frozenset[str]()
        followers = new.replicas - {name}
        broker.ends = {other: broker.ends[other] if other in kept else None for other in followers}

    def can_fetch(self, name: str) -> bool:
        known = self.known(name)
        leader = known.leader
        return (
            name in known.replicas
            and leader != name
            and self.leads(leader)
            and self.known(leader).epoch == known.epoch
            and name in self.known(leader).replicas
        )

    def fetch(self, name: str) -> None:
        broker, leader = self.brokers[name], self.brokers[self.known(name).leader]
        same = 0
        for mine, theirs in zip(broker.log, leader.log, strict=False):
            if mine != theirs:
                break
            same += 1
        if same < len(broker.log):
            del broker.log[same:]
            return
        leader.ends[name] = len(broker.log)
        self.expand(leader, name)
        broker.log += leader.log[len(broker.log) :]

    def expand(self, leader: Broker, name: str) -> None:
        started = sum(epoch < self.known(leader.name).epoch for epoch, _ in leader.log)
        high = min([len(leader.log), *(self.end(leader, other) for other in self.now.isr)])
        fresh = leader.knows == len(self.decisions) - 1 and name not in self.now.isr
        if fresh and len(self.brokers[name].log) >= max(started, high):
            grown = replace(self.now, isr=self.now.isr | {name})
            self.decisions[-1] = grown
            self.decide(self.completed(grown) or grown)

    def end(self, leader: Broker, other: str) -> int:
        known = len(leader.log) if other == leader.name else leader.ends.get(other)
        return -1 if known is None else known

    def send(self, name: str) -> None:
        self.sent += 1
        self.brokers[name].log.append((self.known(name).epoch, f"m{self.sent}"))


def agree(play: Play, plain: PlainKraft) -> None:
    now, names = play.now, BROKERS
    assert [names[b] for b in now.assigned] == sorted(plain.now.replicas)
    assert (names[now.leader], now.epoch) == (plain.now.leader, plain.now.epoch)
    assert [names[b] for b in now.isr] == sorted(plain.now.isr)
    for name, seen in zip(names, now.replicas, strict=True):
        broker = plain.brokers[name]
        assert [(entry.epoch, entry.record) for entry in seen.log] == broker.log
        if name in plain.known(name).replicas:
            known = plain.known(name)
            assert (names[seen.follows], seen.epoch) == (known.leader, known.epoch)
        for other, end in broker.ends.items():
            b, place = names.index(name), layout.REMOTE + names.index(other)
            assert get(play.vector, b, place) == (-1 if end is None else end)


VERBS = ("reassign", "cancel", "learn", "learn", "skip", "fetch", "fetch", "fetch", "send")


@pytest.mark.parametrize("interrupts", [True, False], ids=["interrupted", "alone"])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "one-by-one"])
@PLAYS
@given(
    steps=st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 29)), min_size=5, max_size=40)
)
def test_replicas_come_and_go_as_by_whole_partitions(
    merged: bool, interrupts: bool, steps: list[tuple[str, int]]
) -> None:
    play = Play.of("3.9.2", records=4, interrupts=interrupts)
    plain = PlainKraft(interrupts=interrupts)
    for verb, number in steps:
        what = SETS[number % len(SETS)] if verb == "reassign" else BROKERS[number % 3]
        if (verb == "skip" and not merged) or (verb == "cancel" and not interrupts):
            continue
        can = play.can(f"{verb} {what}")
        assert verb == "send" or can is plain.can(verb, what)
        if can:
            play.do(f"{verb} {what}")
            plain.do(verb, what)
            agree(play, plain)
