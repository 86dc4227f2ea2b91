"""Rounds: who runs hears of everything at once, and an idle fetch brings the HW only when told."""

from tests.support.model_dsl import Play


def test_the_hw_comes_with_the_next_fetch() -> None:
    play = Play.of("2.8.2", by="round").do("send A, run ABC")
    assert (play.hw("A"), play.hw("B")) == (1, 0)
    assert play.do("tell ABC").hw("B") == 1


def test_a_parked_fetch_ends_when_its_broker_hears_of_a_new_leader() -> None:
    """So nothing is told while somebody who runs has not heard of it; real brokers hear at once."""
    play = Play.of("2.8.2", by="round").do("send A, run ABC, move B")
    assert not play.can("tell ABC")
    assert not play.can("tell AC")
    play.do("run ABC")
    assert play.hw("C") == 0
    assert play.do("tell BC").hw("C") == 1


def test_only_an_idle_fetch_is_parked() -> None:
    """A's log diverges, of the same length: it would be cut, and filled again, in one go."""
    play = Play.of("2.8.0", by="round").do("send A, move B, run A, run B, send B, run BC")
    assert not play.can("tell ABC")
    assert play.do("run ABC").can("tell ABC")


def test_a_kraft_leader_shuts_down_after_the_session_of_a_dead_broker() -> None:
    """Seen on 3.9.2 and 4.4.0: the leader waits for B's session, and a follower does not."""
    play = Play.of("4.4.0", by="round").do("kill B")
    assert not play.can("stop A C")
    assert play.can("stop C C")
    assert play.do("expire B B").can("stop A C")
    assert not Play.of("4.4.0", by="round").do("pause B").can("stop A C")
    assert Play.of("3.9.2-zk", by="round").do("kill B").can("stop A C")
    assert Play.of("4.4.0").do("kill B").can("stop A C")  # its leadership moves at once
