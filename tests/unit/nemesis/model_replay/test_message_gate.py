"""A gate lets exactly one message pass, and says when it cannot."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from highwater.clusters.relay.messages import MessageRule
from highwater.harness.base.errors import WaitTimeoutError
from highwater.nemesis.context import ScheduleNotFollowedError
from highwater.nemesis.model_replay import message_gate
from highwater.nemesis.model_replay.message_gate import MessageGate

if TYPE_CHECKING:
    from highwater.clusters.relay.network import Network

FETCHES = MessageRule(action="hold", api=1, times=0)
QUESTIONS = MessageRule(action="hold", api=23, times=0)


class Catcher:
    """The messages of one rule, as a wire would report them."""

    def __init__(self, wire: "Wire", rule: MessageRule) -> None:
        self.rule = rule
        self.wire = wire
        self.rows: list[dict[str, Any]] = []
        self.ended = False

    def note(self, event: str, message: int) -> None:
        self.wire.now += 1
        row = {"event": event, "message": message, "api": self.rule.api}
        self.rows.append({**row, "time_ns": self.wire.now})

    def events(self, *names: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if not names or row["event"] in names]

    def let_pass(self, *, lose: bool = False) -> None:
        gone = {row["message"] for row in self.events("sent", "dropped")}
        for message in {row["message"] for row in self.events("caught")} - gone:
            self.note("dropped" if lose else "sent", message)

    def release(self, cause: str = "order") -> None:
        assert cause == "schedule"
        self.ended = True


class Wire:
    def __init__(self) -> None:
        self.now = 0
        self.catchers: list[Catcher] = []

    def catch(self, rule: MessageRule) -> Catcher:
        self.catchers.append(Catcher(self, rule))
        return self.catchers[-1]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    monkeypatch.setattr(message_gate, "LIMIT_S", 0.05)
    return Wire()


def gate_on(wire: Wire) -> MessageGate:
    return MessageGate(cast("Network", wire), "fetches of broker 2", FETCHES, QUESTIONS)


def test_the_message_in_hand_is_the_one_that_has_not_gone_on(wire: Wire) -> None:
    gate = gate_on(wire)
    fetches, questions = wire.catchers
    questions.note("caught", 1)
    assert gate.await_message()["api"] == 23
    gate.let_pass()
    assert gate.in_hand() == []
    fetches.note("caught", 2)
    assert gate.await_message(caught=2)["message"] == 2
    gate.lose()
    assert [row["event"] for row in fetches.rows] == ["caught", "dropped"]
    assert (gate.count("caught"), gate.count("sent")) == (2, 1)


def test_a_message_whose_sender_has_gone_does_not_wait(wire: Wire) -> None:
    gate = gate_on(wire)
    wire.catchers[0].note("caught", 1)
    wire.catchers[0].note("client-gone", 1)
    assert gate.in_hand() == []


def test_without_a_message_it_says_which_did_not_come(wire: Wire) -> None:
    gate = gate_on(wire)
    with pytest.raises(WaitTimeoutError, match="fetches of broker 2"):
        gate.await_message()
    wire.catchers[0].note("caught", 1)
    with pytest.raises(WaitTimeoutError):
        gate.await_message(caught=2)
    with pytest.raises(WaitTimeoutError, match="answered"):
        gate.await_count("answered", 1)


def test_two_at_once_cannot_pass_one_by_one(wire: Wire) -> None:
    gate = gate_on(wire)
    for catcher in wire.catchers:
        catcher.note("caught", catcher.rule.api)
    with pytest.raises(
        ScheduleNotFollowedError, match="2 of the fetches of broker 2 wait at the same time"
    ):
        gate.await_message()


def test_an_open_gate_holds_nothing(wire: Wire) -> None:
    gate_on(wire).open()
    assert all(catcher.ended for catcher in wire.catchers)
