"""Elections, with eligible replicas and by hand, against a plain model of the controller in sets.

KIP-966 for the ELR and the last known leader, KIP-460 for elections by hand. No record is sent, so
that nobody who has left the ISR comes back to it.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model_dsl import BROKERS, Play

PLAYS = settings(max_examples=300, deadline=None)
Event = tuple[str, int]
RELEASES = {"3.9.2-zk": False, "3.9.2": False, "4.2.1": True, "4.4.0": True}
"""Whether replicas are eligible that are not in the ISR."""


@dataclass(kw_only=True)
class Controller:
    """One partition, as its controller has it."""

    elr_kept: bool
    min_isr: int
    unclean: bool
    live: set[int] = field(default_factory=lambda: {0, 1, 2})
    isr: set[int] = field(default_factory=lambda: {0, 1, 2})
    elr: set[int] = field(default_factory=set)
    last: int | None = None
    leader: int | None = 0

    def valid(self) -> set[int]:
        """Who may be elected without anybody's asking."""
        if self.isr & self.live:
            return self.isr & self.live
        if self.elr_kept:
            if self.elr & self.live:
                return self.elr & self.live
            if not self.elr and self.last in self.live:
                return {self.last} - {None}
        return self.live if self.unclean else set()

    def shrink(self, isr: set[int]) -> None:
        """Replace the ISR by a smaller one."""
        enough = len(isr) >= self.min_isr
        self.elr = set() if enough or not self.elr_kept else (self.elr | self.isr) - isr
        self.isr = isr

    def lead(self, b: int) -> None:
        """Elect it."""
        if b in self.isr:
            self.shrink(self.isr & self.live)
        elif b in self.elr:
            self.shrink({b})
        else:
            self.isr, self.elr = {b}, set()
        self.leader, self.last = b, None

    def fence(self, b: int, choice: int) -> int | None:
        """End a session; who leads in its place, if it has led."""
        self.live.remove(b)
        if self.leader != b:
            if b in self.isr and self.leader is not None:
                self.shrink(self.isr - {b})
            return None
        if able := sorted(self.valid()):
            self.lead(able[choice % len(able)])
        elif self.elr_kept:
            self.shrink(set())
            self.leader, self.last = None, b
        else:
            self.isr, self.leader = {b}, None
        return self.leader

    def welcome(self, b: int, *, killed: bool) -> None:
        """Begin a session."""
        self.live.add(b)
        if killed:
            self.elr.discard(b)
        if self.leader is None and (able := self.valid()):
            self.lead(b if b in able else min(able))


def follow(plain: Controller, play: Play, events: list[Event]) -> None:
    """Take the same steps in both; after each, both must know the same."""
    gone: dict[int, str] = {}
    for verb, number in events:
        b, name = number % 3, BROKERS[number % 3]
        if verb == "elect":
            able = plain.valid() or plain.live if plain.leader is None else set()
            assert play.can(f"elect {name}") is (b in able)
            if b in able:
                play.do(f"elect {name}")
                plain.lead(b)
        elif verb == "back" and b in gone:
            how = gone.pop(b)
            play.do(f"start {name}" if how == "kill" else f"resume {name}, register {name}")
            plain.welcome(b, killed=how == "kill")
        elif verb in {"kill", "pause"} and b in plain.live:
            gone[b] = verb
            heir = plain.fence(b, number)
            play.do(f"{verb} {name}, expire {name} {name if heir is None else BROKERS[heir]}")
        now = play.now
        assert now.leader == (-1 if plain.leader is None else plain.leader)
        assert {*now.isr} == plain.isr
        assert {*now.elr} == plain.elr


@pytest.mark.parametrize("kafka", RELEASES)
@PLAYS
@given(
    st.lists(
        st.tuples(st.sampled_from(["kill", "pause", "back", "elect"]), st.integers(0, 59)),
        min_size=4,
        max_size=14,
    ),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_controller_elects_as_a_plain_one(
    kafka: str, events: list[Event], min_isr: int, unclean: bool
) -> None:
    play = Play.of(kafka, min_isr=min_isr, unclean=unclean)
    plain = Controller(elr_kept=RELEASES[kafka], min_isr=min_isr, unclean=unclean)
    follow(plain, play, events)
