"""Moves one by one: processes, sessions, elections, clients; and what a scope allows."""

from dataclasses import fields

import numpy as np
import pytest

from highwater.checkers.model.protocol.moves import OF_TWO, ROUNDS, Move, moves
from highwater.checkers.model.protocol.readable_state import decode
from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, rules_of
from highwater.checkers.model.protocol.scope import By, Scope, constants, initial
from highwater.checkers.model.protocol.state_layout import APPLIED_DECISION, MAX_BROKERS, WIDTH, get
from highwater.harness.base.errors import UsageError
from tests.support.model_dsl import Play


@pytest.mark.parametrize("brokers", [2, 3])
def test_at_the_beginning_broker_0_leads_and_all_know_it(brokers: int) -> None:
    scope = Scope(brokers=brokers)
    s = initial(scope)
    assert s.dtype == np.int8
    assert s.shape == (WIDTH,)
    assert WIDTH % 8 == 0
    now = decode(s, constants(scope, rules_of("4.3.1")))
    everybody = tuple(range(brokers))
    assert (now.leader, now.epoch, now.isr, now.live) == (0, 0, everybody, everybody)
    assert [one.follows for one in now.replicas] == [0] * brokers
    assert [one.fetcher for one in now.replicas] == ["none", *["fetching"] * (brokers - 1)]
    assert [one.isr for one in now.replicas] == [everybody, *[()] * (brokers - 1)]
    assert [get(s, b, APPLIED_DECISION) for b in range(brokers, MAX_BROKERS)] == [-1] * (
        MAX_BROKERS - brokers
    )


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"brokers": 4}, "brokers = 4"),
        ({"brokers": 1}, "brokers = 1"),
        ({"records": 0}, "records = 0"),
        ({"records": 7}, "records = 7"),
        ({"failures": -1}, "failures = -1"),
        ({"moves": 10}, "moves = 10"),
        ({"late": 10}, "late = 10"),
        ({"brokers": 2, "min_isr": 3}, "min_isr = 3"),
        ({"acks": "2"}, "acks '2'"),
    ],
)
def test_a_scope_that_does_not_fit_is_refused(bounds: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        Scope(**bounds)  # type: ignore[arg-type]
    assert refused.value.hint


def test_an_unknown_release_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"know Kafka release '2\.8\.3'") as refused:
        rules_of("2.8.3")
    assert "2.8.2" in refused.value.hint


@pytest.mark.parametrize("kafka", RELEASES)
def test_the_constants_hold_every_switch_in_its_place(kafka: str) -> None:
    rules = rules_of(kafka)
    k = constants(Scope(), rules)
    assert [bool(one) for one in k[-len(SWITCHES) :]] == [
        getattr(rules, one.name) for one in fields(rules)
    ]


@pytest.mark.parametrize("by", ["message", "round"])
def test_what_a_scope_does_not_allow_is_no_move(by: By) -> None:
    none = Scope(failures=0, moves=0, late=0, by=by)
    kinds = {Move(kind) for kind, _, _ in moves(none)}
    assert kinds.isdisjoint({Move.KILL, Move.PAUSE, Move.LAG, Move.MOVE, Move.STOP, Move.ASK})
    assert (kinds >= ROUNDS) is (by == "round")
    assert Move.STOP not in {Move(kind) for kind, _, _ in moves(Scope(by=by, stops=False))}
    for kind, b, other in moves(Scope(by=by)):
        assert 0 <= b < (8 if kind in ROUNDS else 3)
        assert other == 0 or kind in OF_TWO


def test_failures_moves_and_late_answers_are_spent() -> None:
    play = Play.of("4.3.1", failures=1, moves=1, late=1)
    play.do("send A, ask B, pause C, move B")
    assert not any(play.can(move) for move in ("ask C", "kill A", "pause A", "move C", "stop A B"))
    assert play.can("resume C")


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("", "send B"),
        ("kill A", "send A"),
        ("kill B", "fetch B"),
        ("kill A", "fetch B"),
        ("kill B", "start B"),
        ("kill B", "kill B"),
        ("kill B", "pause B"),
        ("", "expire A B"),
        ("kill A", "expire A A"),
        ("kill C", "expire C B"),
        ("kill A, expire A B", "move B"),
        ("kill B, expire B B", "move B"),
        ("", "resume B"),
        ("", "register B"),
        ("", "learn B"),
        ("", "truncate B"),
        ("", "receive B"),
        ("", "ask B"),
        ("", "confirm A"),
        ("", "checkpoint A"),
        ("kill C", "shrink B C"),
    ],
)
def test_what_cannot_happen_is_no_move(script: str, refused: str) -> None:
    assert not Play.of("2.8.2").do(script).can(refused)


def test_a_killed_broker_keeps_its_log_and_the_hw_of_its_disk() -> None:
    play = Play.of("2.8.2", brokers=2).do("send A, send A, fetch B, fetch B, fetch B, checkpoint B")
    play.do("send A, fetch B, fetch B, fetch B")
    assert (play.log("B"), play.hw("B")) == ("m1 m2 m3", 3)
    play.do("kill B, expire B B, start B")
    assert (play.log("B"), play.hw("B"), play.now.replicas[1].follows) == ("m1 m2 m3", 2, -1)
    assert play.do("learn B").now.replicas[1].follows == 0


def test_an_orderly_stop_moves_leadership_and_writes_the_hw() -> None:
    play = Play.of("2.8.2", brokers=2).do("send A, fetch B, fetch B, stop A B")
    assert (play.now.leader, play.now.isr) == (1, (1,))
    assert (play.now.replicas[0].process, play.now.replicas[0].hw_on_disk) == ("stopped", 1)


def test_a_paused_broker_that_lost_its_session_hears_the_newest_decision_alone() -> None:
    play = Play.of("2.8.2").do("pause C, expire C C, move B, move A, resume C")
    assert not play.can("learn C")  # its session is over, and ZooKeeper tells it nothing
    play.do("register C, learn C")
    assert (play.now.replicas[2].follows, play.now.replicas[2].epoch) == (0, 3)


def test_a_paused_broker_that_kept_its_session_hears_every_decision() -> None:
    play = Play.of("2.8.2").do("pause C, move B, move A, resume C, learn C")
    assert (play.now.replicas[2].follows, play.now.replicas[2].epoch) == (1, 1)


def test_with_zookeeper_a_decision_without_a_leader_leaves_no_trace() -> None:
    script = "pause A, expire A A, resume A, register A, learn A"
    play = Play.of("2.8.2", brokers=2).do(f"kill B, expire B B, {script}")
    assert (play.now.epoch, play.now.replicas[0].epoch) == (3, 3)
    kraft = Play.of("4.3.1", brokers=2).do(
        "kill B, expire B B, learn A, pause A, expire A A, resume A"
    )
    assert kraft.now.leader == -1
    assert kraft.do("learn A").now.replicas[0].follows == -1


# Elections.


def test_the_last_of_the_isr_stays_and_nobody_else_is_elected() -> None:
    play = Play.of("2.8.2", brokers=2).do("send A, kill B, expire B B, learn A, kill A, expire A A")
    assert (play.now.leader, play.now.isr) == (-1, (0,))
    assert play.do("start B").now.leader == -1
    play.do("start A")
    assert (play.now.leader, play.now.isr) == (0, (0,))


def test_an_unclean_election_takes_whoever_lives_and_loses_records() -> None:
    play = Play.of("2.8.2", brokers=2, unclean=True).do("kill B, expire B B, learn A, send A")
    play.do("kill A, expire A A, start B, learn B")
    assert (play.now.leader, play.now.isr) == (1, (1,))
    assert play.now.acked == ("m1",)
    assert {"acked-kept", "read-kept"} <= play.broken


LAST_OF_ALL = "kill B, expire B B, learn A, send A, kill A, expire A A"


def test_an_operator_elects_whoever_lives_where_nobody_leads() -> None:
    play = Play.of("2.8.2", brokers=2).do(LAST_OF_ALL)
    assert not play.can("elect B")  # it is down
    play.do("start B")
    assert play.now.leader == -1
    assert not play.can("elect A")
    play.do("elect B, learn B")
    assert (play.now.leader, play.now.isr) == (1, (1,))
    assert {"acked-kept", "read-kept"} <= play.broken
    assert not play.can("elect B")  # it leads


def test_elr_of_min_isr_1_is_the_last_of_the_isr() -> None:
    play = Play.of("4.3.1", brokers=2).do("kill B, expire B B, learn A")
    assert not play.now.elr
    play.do("pause A, expire A A")
    assert (play.now.leader, play.now.isr, play.now.elr, play.now.last_leader) == (-1, (), (0,), 0)
    assert play.do("start B").now.leader == -1
    play.do("resume A, register A")
    assert (play.now.leader, play.now.isr, play.now.elr, play.now.last_leader) == (0, (0,), (), -1)


def test_who_was_killed_leaves_the_elr_and_leads_as_the_last_known_leader() -> None:
    play = Play.of("4.3.1", brokers=2).do(
        "kill B, expire B B, learn A, kill A, expire A A, start B"
    )
    assert play.now.leader == -1
    assert play.do("start A").now.leader == 0


def test_elr_of_min_isr_2_elects_whom_the_hw_has_waited_for() -> None:
    """With ISR {A} the HW stands, so B has all that was acknowledged (KIP-966)."""
    play = Play.of("4.3.1", brokers=2, min_isr=2, acks="1").do("send A, fetch B, fetch B, pause B")
    play.do("send A, expire B B, learn A, pause A, expire A A")
    assert (play.now.elr, play.hw("A")) == ((0, 1), 1)
    play.do("resume B, register B, learn B")
    assert (play.now.leader, play.now.isr, play.now.elr) == (1, (1,), (0,))
    assert "read-kept" not in play.broken
    assert "acked-kept" in play.broken  # acks=1 promises that no more than it ever did


# Clients.


@pytest.mark.parametrize(("acks", "told"), [("all", ()), ("1", ("m1",))])
def test_acks_say_when_a_producer_hears(acks: str, told: tuple[str, ...]) -> None:
    play = Play.of("2.8.2", brokers=2, acks=acks).do("send A, fetch B")
    assert play.now.acked == told
    play.do("fetch B")
    assert (play.now.acked, play.now.read) == (("m1",), ("m1",))


def test_acks_all_waits_for_enough_in_sync_replicas() -> None:
    play = Play.of("2.8.2", brokers=2, min_isr=2).do("kill B, expire B B, learn A")
    assert not play.can("send A")
    assert Play.of("2.8.2", brokers=2).do("kill B, expire B B, learn A").can("send A")


def test_a_leader_that_is_deposed_answers_no_producer_any_more() -> None:
    play = Play.of("2.8.2", brokers=2).do(
        "send A, fetch B, move B, learn B, learn A, fetch A, fetch A"
    )
    assert play.now.read == ("m1",)
    assert not play.now.acked


# Batches, a controller that dies, disks that are replaced.


def test_a_batch_is_answered_as_a_whole() -> None:
    play = Play.of("2.8.2", brokers=2).do("send A, batch A 2, fetch B, fetch B")
    assert (play.log("B"), play.now.acked) == ("m1 m2 m3", ("m1", "m2", "m3"))
    assert not Play.of("0.10.2.2").can("batch A 2")


BATCH_CUT_INSIDE = (
    "lag A B, pause A, expire A B, resume A, register A, learn B, send B, batch A 2, learn A"
)


def test_a_cut_inside_of_a_batch_leaves_a_gap() -> None:
    """B does not know A's epoch, and tells A its own LEO (KIP-279)."""
    play = Play.of("1.1.1", brokers=2, unclean=True).do(f"{BATCH_CUT_INSIDE}, truncate A, fetch A")
    assert (play.log("A"), play.log("B")) == ("-", "m1")
    assert "gapless" in play.broken
    kept = Play.of("2.0.1", brokers=2, unclean=True).do(f"{BATCH_CUT_INSIDE}, truncate A, fetch A")
    assert (kept.log("A"), "gapless" in kept.broken) == ("m1", False)


def test_a_batch_that_begins_below_the_leo_ends_the_fetcher() -> None:
    script = "send A, lag A B, pause A, expire A B, resume A, register A, learn A, learn B"
    script += ", truncate A, batch B 2, fetch A"
    play = Play.of("1.1.1", brokers=2, unclean=True).do(script)
    assert (play.log("A"), play.now.replicas[0].fetcher) == ("m1", "ended")
    assert "fetches-on" in play.broken
    assert not play.can("fetch A")
    kept = Play.of("2.0.1", brokers=2, unclean=True).do(script)
    assert (kept.log("A"), "fetches-on" in kept.broken) == ("m2 m3", False)


def test_what_a_dead_controller_had_not_delivered_is_lost() -> None:
    play = Play.of("3.9.2-zk").do("move B, move A, learn B, learn B, failover, move C")
    play.do("learn A")
    assert (play.now.replicas[0].follows, play.now.replicas[0].epoch) == (0, 2)
    play.do("learn A")
    assert (play.now.replicas[0].follows, play.now.replicas[0].epoch) == (2, 3)
    assert not Play.of("3.9.2-zk").do("move B").can("failover")  # it changes nothing
    assert not Play.of("3.9.2").do("move B, move A").can("failover")


def test_a_leader_that_missed_decisions_commits_by_what_its_followers_had() -> None:
    """As docs/findings/missed-decisions.md has it."""
    script = "send A, fetch B, fetch B, move C, learn C, learn B, truncate B, move A, failover"
    script = script.replace(", truncate B", ", fetch B")  # since 2.8 the fetch itself truncates
    play = Play.of("3.9.2-zk").do(f"{script}, learn A, learn C, fetch C, fetch C, fetch C")
    assert (play.log("B"), play.now.acked) == ("", ("m1",))
    play.do("move B, learn B, learn B")
    assert "acked-kept" in play.broken


def test_a_disk_is_replaced_outside_of_the_isr_alone() -> None:
    play = Play.of("3.9.2-zk", brokers=2).do("send A, fetch B, fetch B, stop A B")
    assert not play.can("wipe B")
    play.do("wipe A")
    assert (play.log("A"), play.now.replicas[0].process) == ("", "dead")


def test_an_empty_replica_enters_the_isr_and_leads() -> None:
    """KAFKA-14139: B was asked for before its disk was replaced."""
    script = "send A, stop B B, learn A, start B, learn B, fetch B, propose B, stop B B, wipe B"
    script += ", start B, admit A, stop A B, learn B"
    assert "acked-kept" in Play.of("3.9.2-zk", brokers=2).do(script).broken
    kept = script.replace(", stop A B, learn B", "")
    play = Play.of("3.9.2", brokers=2).do(kept)
    assert play.now.isr == (0,)
    assert not play.can("stop A B")


@pytest.mark.parametrize(
    ("kafka", "script", "refused"),
    [
        ("3.9.2", "", "reassign ABC"),
        ("3.9.2", "", "reassign BAC"),
        ("3.9.2", "reassign AB, reassign AC", "reassign AB"),
        ("3.9.2-zk", "reassign AB, stop C C", "reassign ABC"),
        ("4.4.0", "reassign A, stop A A", "reassign AB"),
    ],
)
def test_what_no_controller_does_is_no_reassignment(kafka: str, script: str, refused: str) -> None:
    """The same replicas; two at once; with ZooKeeper a broker that is down; see ``reassign``."""
    assert not Play.of(kafka, min_isr=2).do(script).can(refused)


def test_with_zookeeper_a_broker_that_is_away_keeps_what_it_is_not_told_to_delete() -> None:
    play = Play.of("3.9.2-zk").do("send A, fetch C, stop C C, reassign AB, learn A, learn A")
    play.do("start C, learn C")
    assert (play.log("C"), play.now.assigned) == ("m1", (0, 1))
    told = Play.of("3.9.2-zk").do("send A, fetch C, reassign AB, learn C, learn C")
    assert told.log("C") == ""


def test_the_last_leader_leads_as_soon_as_the_elr_is_empty() -> None:
    """Brokers of 4.4.0 do so when the other registers: it leaves the ELR, as it was killed."""
    play = Play.of("4.4.0", brokers=2, min_isr=2)
    play.do("kill B, expire B B, kill A, expire A A, start A")
    assert (play.now.leader, play.now.elr) == (-1, (1,))
    assert play.do("start B").now.leader == 0


ALONE = "send A, lag A C, confirm A, pause B, expire B B, learn A, resume B, register B"
"""Only A has m1, and is alone in the ISR. C can join."""


def test_a_follower_that_joins_does_not_count_for_min_insync_replicas() -> None:
    joins = f"{ALONE}, propose C, fetch C, fetch C"
    play = Play.of("4.4.0", min_isr=2).do(joins)
    assert (play.now.isr, play.now.elr, play.log("C"), play.hw("A")) == ((0,), (1,), "m1", 0)
    play.do("admit A")
    assert (play.now.isr, play.now.elr, play.hw("A"), play.now.acked) == ((0, 2), (), 1, ("m1",))
    eligible = Play.of("4.4.0", min_isr=2).do(f"{joins}, pause A, expire A B, learn B")
    assert (eligible.now.leader, eligible.log("B"), eligible.broken) == (1, "", set())


def test_before_kafka_3_7_a_follower_that_joins_counts_for_the_producer() -> None:
    play = Play.of("3.6.2", min_isr=3).do("send A, lag A C, confirm A, propose C, fetch C, fetch C")
    assert (play.now.isr, play.hw("A"), play.now.acked) == ((0, 1), 0, ())
    play.do("fetch B, fetch B")
    assert (play.now.isr, play.hw("A"), play.now.acked) == ((0, 1), 1, ("m1",))
