"""Faults from injection to healing, as every reader of a run has them."""

from typing import Any

import pytest

from highwater.harness.runs.faults.intervals import NEVER, fault_intervals
from highwater.harness.runs.faults.times import Strike, Strikes


def row(time_ns: int, fault: str, phase: str, broker: int | None, **fields: int) -> dict[str, Any]:
    says = f"{fault} {phase} {broker or ''}".strip()
    return {
        "time_ns": time_ns, "fault": fault, "phase": phase, "broker": broker, "says": says, **fields
    }  # fmt: skip


def test_an_injection_lasts_until_the_healing_of_its_target() -> None:
    rows = [
        row(9, "kill", "heal", 2),
        row(1, "kill", "inject", 1),
        row(2, "kill", "inject", 2),
        row(3, "set-min-isr", "inject", None),
        row(5, "set-min-isr", "heal", None),
    ]
    faults, notes = fault_intervals(rows, {})
    assert [(f.name, f.broker, f.start_ns, f.end_ns, f.until_ns, f.healed) for f in faults] == [
        ("kill", 1, 1, None, NEVER, ""),
        ("kill", 2, 2, 9, 9, "kill heal 2"),
        ("set-min-isr", None, 3, 5, 5, "set-min-isr heal"),
    ]
    assert notes == []
    assert faults[0].past == "killed"


def test_a_kill_ends_the_pause_of_its_broker() -> None:
    rows = [row(1, "pause", "inject", 1), row(4, "kill", "inject", 1), row(8, "kill", "heal", 1)]
    faults, _ = fault_intervals(rows, {})
    assert [(f.name, f.start_ns, f.end_ns, f.healed) for f in faults] == [
        ("pause", 1, 4, ""),
        ("kill", 4, 8, "kill heal 1"),
    ]


def test_a_broker_and_its_wire_have_a_fault_each() -> None:
    rows = [
        row(1, "pause", "inject", 1),
        row(2, "partition", "inject", 1),
        row(5, "pause", "heal", 1),
        row(8, "partition", "heal", 1),
    ]
    faults, _ = fault_intervals(rows, {})
    assert [(f.name, f.start_ns, f.end_ns) for f in faults] == [
        ("pause", 1, 5),
        ("partition", 2, 8),
    ]


@pytest.mark.parametrize("end_first", [True, False])
@pytest.mark.parametrize(
    "healing", ["no longer held: {}", "the message {} is healed", "the message {} is mended"]
)
def test_two_messages_held_at_once_end_each_by_its_own_healing(
    healing: str, *, end_first: bool
) -> None:
    """As an intercept of a story says so, and a fault of a schedule; old runs have other words."""
    held = ("EndTxn client:*>broker-1", "Produce client:a>*: once")

    def says(at: int, phase: str, message: str) -> dict[str, Any]:
        words = f"to be held: {message}"
        healed = healing.format(message)
        sentence = words if phase == "inject" else healed
        return row(at, "hold-message", phase, None) | {"says": sentence}

    ends = held if end_first else held[::-1]
    faults, _ = fault_intervals(
        [
            *(says(at, "inject", message) for at, message in enumerate(held)),
            *(says(at, "heal", message) for at, message in zip((2, 8), ends, strict=True)),
        ],
        {},
    )
    times = [(0, 2), (1, 8)] if end_first else [(0, 8), (1, 2)]
    assert [(f.start_ns, f.end_ns) for f in faults] == times
    assert [f.healed for f in faults] == [healing.format(message) for message in held]


def test_a_fault_begins_when_the_schedule_began_to_inject_it() -> None:
    strikes: Strikes = {("stop", 1): [Strike(2, 4), Strike(7)], ("stop", 2): [Strike(1)]}
    faults, _ = fault_intervals(
        [row(5, "stop", "inject", 1), row(6, "stop", "heal", 1), row(9, "stop", "inject", 1)],
        strikes,
    )
    assert [f.start_ns for f in faults] == [2, 7]
    assert [f.sure_until_ns for f in faults] == [4, NEVER]


def test_notes_are_apart_and_name_their_step() -> None:
    rows = [
        row(1, "kill", "inject", 1),
        row(2, "step", "note", 1, step=3),
        row(3, "upgrade", "note", 1) | {"says": "step 4 of 9: A is killed"},
        row(4, "step", "note", None),
    ]
    faults, notes = fault_intervals(rows, {})
    assert [f.name for f in faults] == ["kill"]
    assert faults[0].end_ns is None
    assert [(n.start_ns, n.step) for n in notes] == [(2, 3), (3, 4), (4, None)]
