"""Every rule, switched alone: a few moves after which it matters, as its KIP or issue says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, rules_of
from highwater.harness.releases.catalogue import CATALOGUE, Release, Truncation
from tests.support.model_dsl import BROKERS, Play


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Moves after which a rule shows.

    Attributes:
        kafka: a release whose other rules hold.
        sees: what is looked at after the script.
        on: what is seen with the rule, ``off`` without.
    """

    switch: str
    kafka: str
    script: str
    sees: Callable[[Play], object]
    on: object
    off: object
    bounds: Mapping[str, Any] = field(default_factory=dict)


def logs(play: Play) -> tuple[str, ...]:
    return tuple(play.log(BROKERS[b]) for b in range(play.scope.brokers))


def acked(play: Play) -> tuple[str, ...]:
    return play.now.acked


def leader(play: Play) -> int:
    return play.now.leader


def isr(play: Play) -> str:
    return "".join(BROKERS[b] for b in play.now.isr)


def fetcher(broker: str) -> Callable[[Play], str]:
    return lambda play: play.now.replicas[BROKERS.index(broker)].fetcher


def possible(move: str) -> Callable[[Play], bool]:
    return lambda play: play.can(move)


TWO = {"brokers": 2}
ONE_FETCH_AHEAD = "send A, fetch B, fetch B"
"""m1 is committed, and B does not know it yet."""
LATE_JOIN = "send A, stop B B, learn A, start B, learn B, fetch B, propose B"
"""B has everything, and that A asks for it in the ISR has not reached the controller."""

FORK = """
    send A, fetch B
    send A, send A
    move B, learn B, send B, send B
    move A, learn A, learn A, send A
    learn B, truncate B
"""
"""A never cut what it had alone, because it led again too soon (KIP-279)."""

MISSED = """
    send A, fetch C
    pause C, expire C C
    learn A, learn B
    move B, learn B, learn A, truncate A
    move A, learn A
    resume C, register C, learn C
"""
"""C fetched m1 from A, and never hears that B led in between, and had A cut it off (KAFKA-7164)."""

IN_SYNC_TOO_SOON = """
    lag A C
    send A, fetch B, fetch B
    move B, learn B
    learn C, truncate C, fetch C
"""
"""B leads with a stale HW, and C lacks the record that A and B have committed (KAFKA-7128)."""

UNFENCED = """
    send A, fetch C
    move B, learn B, learn A, truncate A
    move A, learn A
    learn B, truncate B
    send A, fetch B, fetch B
"""
"""A leads again, B has its new record, and C still fetches as in the first epoch (KAFKA-9338)."""

DIVERGING_IN_FLIGHT = """
    send A, fetch B
    move C, learn C, learn A, fetch A
    move A, learn A, learn B, learn B, ask B
    move B, learn B, learn A, learn C, learn C
    fetch A, fetch C, fetch A, fetch C, fetch A, fetch C
    move A, learn A, learn B, receive B
    move B, learn B
"""
"""An answer that told B to cut is late, and meets a log that is committed by now (KAFKA-18991)."""

OUT_OF_MIN_ISR = """
    kill B, expire B B, learn A
    kill A, expire A A
"""
"""Of two replicas, with min.insync.replicas=2, first B is gone and then A."""

CASES = (
    Case(
        switch="kraft", kafka="3.9.2", bounds=TWO, script="move B, move A",
        sees=possible("skip B"), on=True, off=False,
    ),
    Case(
        switch="epochs", kafka="0.11.0.3", bounds=TWO,
        script=f"{ONE_FETCH_AHEAD}, move B, learn B, move A, learn A, learn A, learn B",
        sees=logs, on=("m1", "m1"), off=("m1", ""),
    ),
    Case(
        switch="exact_epochs", kafka="2.0.0", bounds=TWO, script=FORK,
        sees=logs, on=("m1 m2 m3 m6", "m1"), off=("m1 m2 m3 m6", "m1 m4 m5"),
    ),
    Case(
        switch="below_first_is_empty", kafka="2.0.1", bounds=TWO,
        script=FORK.replace("send A, fetch B\n", "\n"),
        sees=logs, on=("m1 m2 m5", ""), off=("m1 m2 m5", "m3 m4"),
    ),
    Case(
        switch="epoch_on_election", kafka="2.0.1", bounds=TWO,
        script=f"{ONE_FETCH_AHEAD}, move B, learn B, send B, move A, learn A, learn A, learn B"
        ", truncate B",
        sees=logs, on=("m1", "m1"), off=("m1", ""),
    ),
    Case(
        switch="no_epochs_is_undefined", kafka="0.11.0.3", bounds={**TWO, "old_format": True},
        script="send A, move B, learn B, send B, learn A, truncate A",
        sees=logs, on=("", "m2"), off=("m1", "m2"),
    ),
    Case(
        switch="cut_on_missed_epoch", kafka="2.0.1", script=f"{MISSED}, send A",
        sees=fetcher("C"), on="truncating", off="fetching",
    ),
    Case(
        switch="cut_on_new_epoch", kafka="2.1.1", script="kill C, expire C C, learn A, learn B",
        sees=fetcher("B"), on="truncating", off="fetching",
    ),
    Case(
        switch="join_from_epoch_start", kafka="2.0.1", script=IN_SYNC_TOO_SOON,
        sees=isr, on="AB", off="ABC",
    ),
    Case(
        switch="fenced_questions", kafka="2.1.1", script="move B, move A, learn C, learn C",
        sees=possible("truncate C"), on=False, off=True,
    ),
    Case(
        switch="fenced_fetches", kafka="2.4.1", script=UNFENCED,
        sees=possible("fetch C"), on=False, off=True,
    ),
    Case(
        switch="cut_on_fetch", kafka="2.8.2", script="move B, learn A, learn B",
        sees=lambda play: (fetcher("A")(play), play.can("truncate A")),
        on=("fetching", False), off=("truncating", True),
    ),
    Case(
        switch="diverging_is_no_progress", kafka="2.8.2", bounds=TWO,
        script="send A, move B, learn B, send B, learn A, fetch A",
        sees=lambda play: (logs(play), acked(play)),
        on=(("", "m2"), ()), off=(("", "m2"), ("m2",)),
    ),
    Case(
        switch="late_fenced", kafka="3.9.2", script=DIVERGING_IN_FLIGHT,
        sees=lambda play: (logs(play), play.now.read, "read-kept" in play.broken),
        on=(("m1", "m1", "m1"), ("m1",), False), off=(("m1", "", "m1"), ("m1",), True),
    ),
    Case(
        switch="late_needs_fetching", kafka="1.1.1",
        script="send A, ask B, move C, move A, learn B, learn B, receive B",
        sees=lambda play: (play.log("B"), fetcher("B")(play)),
        on=("", "truncating"), off=("m1", "fetching"),
    ),
    Case(
        switch="out_of_range_cuts", kafka="2.0.0", script=f"{MISSED}, fetch C",
        sees=lambda play: (play.now.replicas[2].process, play.log("C")),
        on=("up", ""), off=("dead", "m1"),
    ),
    Case(
        switch="diverging_tells_hw", kafka="3.3.2", bounds=TWO,
        script=f"{ONE_FETCH_AHEAD}, move B, learn B, send B, move A, learn A, learn A, learn B"
        ", fetch B",
        sees=lambda play: (play.log("B"), play.hw("B")), on=("m1", 1), off=("m1", 0),
    ),
    Case(
        switch="cut_drops_empty_epoch", kafka="2.8.2", bounds=TWO,
        script=f"{ONE_FETCH_AHEAD}, move B, learn B, move A, learn A, learn A, send A"
        ", learn B, fetch B, fetch B",
        sees=logs, on=("m1 m2", "m1 m2"), off=("m1 m2", "m1"),
    ),
    Case(
        switch="elected_again_is_new", kafka="4.3.1",
        script=f"{ONE_FETCH_AHEAD}, move C, learn C, learn B, fetch B, move A, skip A"
        ", learn C, fetch C, fetch C, fetch C",
        sees=lambda play: (logs(play), acked(play)),
        on=(("m1", "", "m1"), ()), off=(("m1", "", "m1"), ("m1",)),
    ),
    Case(
        switch="async_isr", kafka="2.8.2", script="send A, fetch B, fetch B, pause C, shrink A C",
        sees=lambda play: (isr(play), play.hw("A"), play.can("confirm A")),
        on=("AB", 0, True), off=("AB", 1, False),
    ),
    Case(
        switch="strict_min_isr", kafka="3.7.2", bounds={**TWO, "acks": "1", "min_isr": 2},
        script="kill B, send A, shrink A B, confirm A",
        sees=lambda play: play.hw("A"), on=0, off=1,
    ),
    Case(
        switch="caught_up_stays", kafka="2.1.1", script="send A, fetch B, fetch B, pause B",
        sees=possible("shrink A B"), on=False, off=True,
    ),
    Case(
        switch="elr", kafka="4.3.1", bounds={**TWO, "min_isr": 2},
        script=OUT_OF_MIN_ISR.replace("kill B", "pause B") + "resume B, register B",
        sees=leader, on=1, off=-1,
    ),
    Case(
        switch="unclean_start_leaves", kafka="4.3.1", bounds={**TWO, "min_isr": 2},
        script=f"{OUT_OF_MIN_ISR} start B",
        sees=leader, on=-1, off=1,
    ),
    Case(
        switch="last_leader_alive", kafka="4.3.1", bounds={**TWO, "min_isr": 2},
        script=f"{OUT_OF_MIN_ISR} start A, kill A, expire A A, start B",
        sees=lambda play: (leader(play), "leader-live" in play.broken),
        on=(-1, False), off=(0, True),
    ),
    Case(
        switch="removal_bumps_epoch", kafka="3.9.2", script="kill C, expire C C",
        sees=lambda play: play.now.epoch, on=1, off=0,
    ),
    Case(
        switch="live_joins_only", kafka="3.7.2",
        script="pause C, expire C C, learn A, resume C, fetch C",
        sees=isr, on="AB", off="ABC",
    ),
    Case(
        switch="decisions_logged", kafka="3.9.2-zk", script="move B, move A",
        sees=possible("failover"), on=False, off=True,
    ),
    Case(
        switch="joins_by_broker_epoch", kafka="3.9.2-zk", bounds=TWO,
        script=f"{LATE_JOIN}, stop B B, wipe B, start B, admit A",
        sees=isr, on="A", off="AB",
    ),
    Case(
        switch="partition_fails_alone", kafka="1.1.1", bounds={**TWO, "unclean": True},
        script="send A, lag A B, pause A, expire A B, resume A, register A, learn A, learn B"
        ", truncate A, batch B 2, fetch A, pause A, expire A A, pause B, expire B B, resume B"
        ", register B, resume A, register A, learn A",
        sees=fetcher("A"), on="truncating", off="ended",
    ),
    Case(
        switch="added_complete", kafka="4.3.1",
        script="reassign AB, learn A, learn B, learn C, move B, learn A, learn B, lag B A"
        ", confirm B, reassign CA, learn B, learn C, fetch C",
        sees=lambda play: play.now.assigned, on=(0, 2), off=(0, 1, 2),
    ),
    Case(
        switch="elr_of_replicas", kafka="4.4.0", bounds={**TWO, "min_isr": 2},
        script="send A, fetch B, fetch B, reassign A, learn A, learn B, reassign AB",
        sees=possible("stop A B"), on=False, off=True,
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.switch)
@pytest.mark.parametrize("switched", [True, False], ids=["on", "off"])
def test_a_rule_does_what_it_says(case: Case, switched: bool) -> None:
    play = Play.of(case.kafka, {case.switch: switched}, **case.bounds).do(case.script)
    assert case.sees(play) == (case.on if switched else case.off)
    assert "type-ok" not in play.broken


def test_every_rule_has_a_case() -> None:
    assert {case.switch for case in CASES} == set(SWITCHES)
    assert len(CASES) == len(SWITCHES)


SINCE = {
    "epochs": ("0.10.2.2", "0.11.0.2"),
    "no_epochs_is_undefined": ("0.11.0.2", "0.11.0.3"),
    "late_needs_fetching": ("1.0.2", "1.1.1"),
    "exact_epochs": ("1.1.1", "2.0.0"),
    "epoch_on_election": ("2.0.0", "2.0.1"),
    "below_first_is_empty": ("2.0.0", "2.0.1"),
    "cut_on_missed_epoch": ("2.0.0", "2.0.1"),
    "join_from_epoch_start": ("2.0.0", "2.0.1"),
    "out_of_range_cuts": ("2.0.0", "2.0.1"),
    "cut_on_new_epoch": ("2.0.1", "2.1.1"),
    "caught_up_stays": ("2.0.1", "2.1.1"),
    "fenced_questions": ("2.0.1", "2.1.1"),
    "fenced_fetches": ("2.4.1", "2.8.0"),
    "cut_on_fetch": ("2.4.1", "2.8.0"),
    "cut_drops_empty_epoch": ("2.4.1", "2.8.0"),
    "async_isr": ("2.4.1", "2.8.0"),
    "diverging_is_no_progress": ("2.8.0", "2.8.2"),
    "live_joins_only": ("2.8.2", "3.3.2"),
    "strict_min_isr": ("3.6.2", "3.7.2"),
    "late_fenced": ("3.9.0", "3.9.2"),
    "last_leader_alive": ("4.0.2", "4.1.2"),
    "elr": ("4.0.2", "4.1.2"),
    "partition_fails_alone": ("2.1.1", "2.4.1"),
    "added_complete": ("4.2.1", "4.3.1"),
}
"""The last release of the catalogue without a rule, and the first with it."""

BEFORE_THE_FIX = {"late_fenced": {"4.0.0"}}
"""Releases without a rule that an older line has: they came out before it got the fix."""


@pytest.mark.parametrize(("switch", "around"), SINCE.items(), ids=SINCE)
def test_a_rule_comes_with_its_release_and_stays(switch: str, around: tuple[str, str]) -> None:
    late = BEFORE_THE_FIX.get(switch, set())
    names = [name for name in sorted(RELEASES, key=_number) if name not in late]
    having = [getattr(rules_of(name), switch) for name in names]
    assert having == sorted(having)
    assert not any(getattr(rules_of(name), switch) for name in late)
    assert [getattr(rules_of(name), switch) for name in around] == [False, True]


def _number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.partition("-")[0].split("."))


@pytest.mark.parametrize("release", CATALOGUE.values(), ids=lambda release: release.name)
def test_rules_and_catalogue_say_the_same(release: Release) -> None:
    rules = rules_of(release.name)
    assert rules.kraft is (release.coordination == "kraft")
    assert rules.epochs is not release.cuts_to_hw
    assert rules.exact_epochs is (
        release.truncation in {Truncation.LEADER_EPOCH_EXACT, Truncation.ON_FETCH}
    )
    assert rules.cut_on_fetch is (release.truncation is Truncation.ON_FETCH)
