"""The frames of a record's story: what each replica is shown to hold, and when."""

import shutil
from pathlib import Path

import msgspec
import pytest

from highwater.checkers.explain.observations import Observation
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Anomaly
from highwater.reports.drawings.frame_strip import describe, frame, key
from highwater.reports.drawings.replica_frames import Frame, Lane, frames, places
from highwater.reports.event_groups import bursts, grouped, title
from highwater.reports.pages.run import write
from highwater.reports.replica_contents import (
    Gap,
    OffsetRow,
    RecordOnDisk,
    read_holdings,
    side_by_side,
)
from highwater.reports.run_evidence import gather
from tests.browser.samples import SAMPLES
from tests.browser.stories import lost_anomaly, witness
from tests.unit.checkers.explain.test_observations import TAKEN, take_away


def told(name: str, store: Path, number: int = 0) -> tuple[Anomaly, list[Frame]]:
    """The frames of one anomaly of a sample run."""
    run = SAMPLES[name]().write(store)
    anomaly = run.verdict().anomalies[number]
    missing: list[str] = []
    shown = frames(anomaly, gather(run), read_holdings(run, ("events", 0), missing))
    assert missing == []
    return anomaly, shown


def at_offset(shown: Frame, offset: int = 3) -> dict[int, tuple[str, str | None]]:
    """What each broker holds at an offset: state and id."""
    return {
        lane.broker: next((c.state, c.value) for c in lane.cells if c.offset == offset)
        for lane in shown.lanes
    }


def test_the_loss_story_is_told_in_six_frames(tmp_path: Path) -> None:
    _, shown = told("loss", tmp_path)
    assert [each.title for each in shown] == [
        "Written and acknowledged",
        "Brokers 1 and 2 are killed",
        "Broker 2 is made leader",
        "Broker 3 truncates its log",
        "Broker 3 is made leader",
        "In the end",
    ]


def test_the_loss_story_shows_what_each_replica_held(tmp_path: Path) -> None:
    _, shown = told("loss", tmp_path)
    subject = ("subject", "m3")
    assert at_offset(shown[0]) == {1: subject, 2: subject, 3: subject}
    assert at_offset(shown[2]) == {1: subject, 2: subject, 3: subject}
    assert at_offset(shown[3]) == {1: subject, 2: subject, 3: ("gone", "m3")}
    assert at_offset(shown[4]) == {1: subject, 2: subject, 3: ("none", None)}
    assert at_offset(shown[5]) == dict.fromkeys((1, 2, 3), ("other", "fence-0"))


def test_the_loss_story_shows_leo_hw_and_the_cut(tmp_path: Path) -> None:
    _, shown = told("loss", tmp_path)
    written = {lane.broker: (lane.leo, lane.hw) for lane in shown[0].lanes}
    assert written == {1: (4, 4), 2: (4, 3), 3: (4, 3)}
    assert [lane.cut for lane in shown[3].lanes] == [None, None, (4, 3)]
    assert [lane.down for lane in shown[3].lanes] == [True, True, False]
    assert [lane.cut for lane in shown[5].lanes] == [(4, 3), (4, 3), None]


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("name", ["loss", "divergence"])
def test_what_was_not_observed_makes_no_drawing_say_anything_else(
    name: str, tmp_path: Path, *, sends: bool
) -> None:
    """A replica is shown as in the drawing of the whole run, or with less.

    What stands at an offset may have been sent without an answer.
    """
    run = SAMPLES[name]().write(tmp_path)
    whole, named = drawings(run), 0
    for taken in TAKEN:
        copy = Run(tmp_path / "part")
        shutil.copytree(run.path, copy.path)
        take_away(copy, *taken)
        for part, lane in zip(drawings(copy, sends=sends), whole, strict=True):
            for shown, known in zip(part, lane, strict=False):
                assert {*known.role.split(", "), "answers"} >= {*shown.role.split(", ")}, taken
                assert shown.leo in (None, known.leo), taken
                for cell, other in zip(shown.cells, known.cells, strict=True):
                    assert cell.value is None or cell == other, (taken, shown.broker)
                    named += cell.value is not None and Observation.DISKS in taken
        shutil.rmtree(copy.path)
    assert named > 50, "hardly anything is drawn without disks"


def drawings(run: Run, *, sends: bool = True) -> list[list[Lane]]:
    """The lanes of all frames, of each anomaly of a run."""
    anomalies = run.verdict().anomalies
    observed = gather(run, places=places(anomalies) if sends else ())
    return [
        [
            lane
            for each in frames(anomaly, observed, read_holdings(run, ("events", 0), []))
            for lane in each.lanes
        ]
        for anomaly in anomalies
    ]


def test_no_replica_is_drawn_outside_of_an_isr_that_was_not_observed(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    anomaly = run.verdict().anomalies[0]
    for taken, shown in ((Observation.WIRE, True), (Observation.LEADERSHIPS, False)):
        take_away(run, taken)
        drawn = [frame(each, anomaly, "x") for each in frames(anomaly, gather(run), {})]
        assert any("in the ISR" in each for each in drawn) is shown, taken


def test_roles_follow_the_controller_even_onto_a_dead_broker(tmp_path: Path) -> None:
    _, shown = told("loss", tmp_path)
    assert [lane.role for lane in shown[0].lanes] == ["leader, epoch 0", "follower", "follower"]
    assert [lane.role for lane in shown[2].lanes] == ["killed", "killed, leader e1", "follower"]
    assert [lane.in_isr for lane in shown[2].lanes] == [False, True, True]
    assert shown[4].lanes[2].role == "leader, epoch 2"


def test_a_divergence_ends_with_both_records_side_by_side(tmp_path: Path) -> None:
    anomaly, shown = told("divergence", tmp_path, 1)
    other = ("other", "m4")
    assert at_offset(shown[-1]) == {1: ("subject", "m3"), 2: other, 3: other}
    assert key(anomaly, shown) == [("subject", "m3", "m3"), ("other", "m4", "m4")]
    assert not any(lane.down for lane in shown[-1].lanes)


def test_a_frame_is_drawn_and_told_in_words(tmp_path: Path) -> None:
    anomaly, shown = told("loss", tmp_path)
    drawn = frame(shown[3], anomaly, "x")
    assert "LEO 4 → 3" in drawn
    assert "HW = LEO 3" in drawn
    assert "Broker 3 (follower) has truncated m3; LEO 3, HW 3." in describe(shown[3], anomaly)


def test_an_anomaly_without_an_offset_or_observations_has_no_frames(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    anomaly = msgspec.structs.replace(run.verdict().anomalies[0], offset=None)
    assert frames(anomaly, gather(run), {}) == []
    elsewhere = msgspec.structs.replace(run.verdict().anomalies[0], partition=9)
    assert frames(elsewhere, gather(run), {}) == []


def test_a_beat_is_called_after_who_acted() -> None:
    killed = [witness(1, "nemesis", "kill", None, "Broker 7 is killed.")]
    assert title("fault", killed) == "Broker 7 is killed"
    elected = [witness(1, "nemesis", "unclean-election", None, "Broker 2 leads uncleanly.")]
    assert title("fault", elected) == "Unclean-election on broker 2"
    both = [*elected, witness(2, "nemesis", "wipe", None, "The disk of broker 3 is empty.")]
    assert title("fault", both) == "Unclean-election and wipe on brokers 2 and 3"
    emptied = witness(2, "nemesis", "controller-disk-loss", None, "Controller 100 is killed.")
    assert title("fault", [*killed, emptied]) == "Broker 7 is killed"
    assert title("elected", [witness(1, "controller", "elected", 1, "No leader.")]) == "New leader"


def test_neighbouring_findings_are_one_burst() -> None:
    offsets = (5, 6, 8, 11, 4)
    found = bursts([lost_anomaly(offset=o, value=f"m{o}") for o in offsets])
    assert [(b.first.offset, b.last_offset, b.count) for b in found] == [
        (5, 8, 3),
        (11, 11, 1),
        (4, 4, 1),
    ]


def test_replicas_are_compared_offset_by_offset_and_only_the_windows_shown() -> None:
    same = {o: RecordOnDisk(value=f"m{o}") for o in range(1000)}
    table = side_by_side({1: same, 2: {**same, 500: RecordOnDisk(value="x")}, 3: same}, [500])
    assert table.differing == 1
    assert table.offsets == 1000
    shown = [row for row in table.rows if isinstance(row, OffsetRow)]
    assert [row.offset for row in shown] == [*range(497, 504), *range(996, 1000)]
    assert [row.states for row in shown if row.differs] == [("same", "odd", "same")]
    assert [(r.offsets, r.differing) for r in table.rows if isinstance(r, Gap)] == [
        (497, 0),
        (492, 0),
    ]


def test_a_long_run_of_differences_is_shown_by_its_ends_and_counted() -> None:
    same = {o: RecordOnDisk(value=f"m{o}") for o in range(1000)}
    forked = {**same, **{o: RecordOnDisk(value=f"x{o}") for o in range(100, 900)}}
    table = side_by_side({1: same, 2: forked}, [])
    assert table.differing == 800
    assert len(table.rows) < 30
    assert sum(row.differing for row in table.rows if isinstance(row, Gap)) == 792


def test_a_replica_that_ends_early_lacks_records_but_does_not_differ() -> None:
    table = side_by_side(
        {
            1: {0: RecordOnDisk(value="a"), 1: RecordOnDisk(value="b")},
            2: {0: RecordOnDisk(value="a")},
        },
        [],
    )
    last = table.rows[-1]
    assert isinstance(last, OffsetRow)
    assert last.states == ("same", "none")
    assert table.differing == 0


@pytest.mark.parametrize("name", ["valid", "hostile"])
def test_holdings_come_from_both_message_formats(name: str, tmp_path: Path) -> None:
    run = SAMPLES[name]().write(tmp_path)
    missing: list[str] = []
    found = read_holdings(run, ("events", 0), missing)
    assert missing == []
    assert sorted(found) == [1, 2, 3]
    assert found[1][0].value == "m0"
    assert (found[1][0].epoch is None) == (name == "hostile")


def test_a_cut_follows_the_election_that_caused_it_and_never_its_own() -> None:
    def beats(*rows: tuple[float, str, str, str]) -> list[str]:
        told = [witness(t, who, what, 1, says) for t, who, what, says in rows]
        return [title(name, each) for name, each in grouped(told)]

    cut = (8.41, "broker 1", "truncated", "Broker 1 truncated its log.")
    third = (8.47, "controller", "elected", "Broker 3 became leader.")
    first = (8.48, "controller", "elected", "Broker 1 became leader.")
    one, three, cuts = (
        "Broker 1 is made leader",
        "Broker 3 is made leader",
        "Broker 1 truncates its log",
    )
    assert beats(cut, third, first) == [three, cuts, one]
    assert beats(cut, first) == [cuts, one]
    note = (8.475, "nemesis", "step", "Broker 1 will lead.")
    assert beats(cut, third, note, first) == [three, cuts, one]
    assert beats(cut, (9.9, *third[1:])) == [cuts, three]


def test_notes_and_consumers_of_the_run_begin_no_beat_of_their_own() -> None:
    told = [
        witness(1.0, "broker 1", "acknowledged", 0, "Broker 1 acknowledged m3."),
        witness(1.1, "consumer-0", "read", None, "consumer-0 read m3."),
        witness(1.2, "nemesis", "kill", None, "Broker 1 is killed."),
        witness(1.3, "nemesis", "step", None, "broker 2 holds m3 above its HW"),
    ]
    assert [title(name, each) for name, each in grouped(told)] == [
        "Written and acknowledged",
        "Broker 1 is killed",
    ]


def test_what_was_cut_away_is_told_by_the_history(tmp_path: Path) -> None:
    """At offset 3 brokers 2 and 3 held m3 before they held m4, whichever the finding is about."""
    run = SAMPLES["divergence"]().write(tmp_path)
    first, last = (
        witness(5.412, "broker 1", "acknowledged", 0, "Broker 1 acknowledged m3."),
        witness(9.13, "broker 3", "acknowledged", 2, "Broker 3 acknowledged m4."),
    )
    killed = witness(5.415, "nemesis", "kill", None, "Broker 1 is killed.")
    fork = lost_anomaly(kind="divergence", value="m4", witnesses=(first, killed, last))
    evidence = gather(run, places=places([fork]))
    shown = frames(fork, evidence, read_holdings(run, ("events", 0), []))
    assert at_offset(shown[0]) == dict.fromkeys((1, 2, 3), ("other", "m3"))
    assert at_offset(shown[-1])[3] == ("subject", "m4")


def test_the_disks_show_what_nobody_observed_any_more(tmp_path: Path) -> None:
    """Broker 2 came back unobserved: its cut was logged, its new records were not seen."""
    sample = SAMPLES["divergence"]()
    sample.replicas[2] = [row for row in sample.replicas[2] if row[0] < 12]
    run = sample.write(tmp_path)
    fork = run.verdict().anomalies[1]
    shown = frames(fork, gather(run, places=places([fork])), read_holdings(run, ("events", 0), []))
    assert at_offset(shown[0])[2] == ("subject", "m3")
    assert at_offset(shown[-1])[2] == ("other", "m4")
    cuts = [each for each in shown if at_offset(each)[2][0] == "gone"]
    assert {at_offset(each)[2][1] for each in cuts} <= {"m3"}
    assert [cell.value for cell in shown[0].lanes[1].cells] == ["m1", "m2", "m3", None]


def test_a_leader_that_acknowledged_held_the_record_though_nobody_saw_it(tmp_path: Path) -> None:
    """It may be killed between the acknowledgement and the next look at it."""
    sample = SAMPLES["loss"]()
    rows = sample.replicas[1]
    acked = next(each for each in rows if each[1] == 4)
    sample.replicas[1] = [each for each in rows if each[1] != 4]
    sample.disks = {2: sample.disks[2], 3: sample.disks[3]}
    assert acked not in sample.replicas[1]
    run = sample.write(tmp_path)
    anomaly = run.verdict().anomalies[0]
    shown = frames(anomaly, gather(run), read_holdings(run, ("events", 0), []))
    assert [at_offset(each)[1] for each in shown[:3]] == [("subject", "m3")] * 3
    assert next(lane.leo for lane in shown[0].lanes if lane.broker == 1) == 4


def test_a_follower_held_what_acks_all_says_though_it_died_before_it_was_asked(
    tmp_path: Path,
) -> None:
    sample = SAMPLES["loss"]()
    sample.replicas[2] = [each for each in sample.replicas[2] if each[1] != 4]
    run = sample.write(tmp_path)
    anomaly = run.verdict().anomalies[0]
    told = gather(run).partitions["events", 0].tracks[2]
    held = gather(run, places=places([anomaly])).partitions["events", 0].tracks[2]
    assert 4 not in told.leo
    assert 4 in held.leo
    assert [*held.time_ns] == [*told.time_ns]


@pytest.mark.parametrize("sent_s", [None, 5.0])
def test_a_disk_read_at_the_end_is_not_drawn_before_its_record_was_there(
    sent_s: float | None, tmp_path: Path
) -> None:
    """Broker 2 was not seen to truncate: only its disk at the end has m4 where m3 was.

    m4 may have been sent before m3 was written, and have waited for the leader of a later epoch.
    """
    sample = SAMPLES["divergence"]()
    sample.replicas[2] = [row for row in sample.replicas[2] if row[0] < 12]
    sample.cuts = [row for row in sample.cuts if row[1] != 2]
    if sent_s is not None:
        sample.plan = msgspec.structs.replace(sample.plan, kafka="2.8.2")  # disks tell epochs
        sample.sends = [(sent_s, *row[1:]) if row[3] == "m4" else row for row in sample.sends]
    run = sample.write(tmp_path)
    fork = run.verdict().anomalies[1]
    shown = frames(fork, gather(run, places=places([fork])), read_holdings(run, ("events", 0), []))
    held = [at_offset(each)[2] for each in shown]
    assert held[0] == ("subject", "m3")
    assert held[-1] == ("other", "m4")
    assert {value for _, value in held[1:-1]} <= {"m3", None}


def test_a_step_that_is_earlier_than_the_one_before_says_why(tmp_path: Path) -> None:
    sample = SAMPLES["loss"]()
    run = sample.write(tmp_path)
    killed = witness(8.3, "nemesis", "kill", None, "Broker 2 is killed.")
    cut = witness(8.546, "broker 1", "truncated", 1, "Broker 1 logged: “Truncating”")
    elected = witness(8.573, "controller", "elected", 1, "Broker 3 became leader.")
    anomaly = lost_anomaly(witnesses=(killed, cut, elected))
    shown = frames(anomaly, gather(run), read_holdings(run, ("events", 0), []))
    assert [(each.clock, each.seen_late) for each in shown] == [
        ("", None),
        ("seen", None),
        ("logged", 2),
    ]
    told = sample.judged(anomalies=(anomaly,)).write(tmp_path / "told")
    page = write(told).read_text("utf-8")
    assert "seen 8.573" in page
    assert "logged 8.546" in page
    assert (
        "The time is earlier than that of step 2, which the observer saw only at its next poll."
        in page
    )


@pytest.mark.parametrize("name", ["loss", "divergence"])
def test_no_step_is_earlier_than_one_before_it_without_a_word(name: str, tmp_path: Path) -> None:
    run = SAMPLES[name]().write(tmp_path)
    for anomaly in run.verdict().anomalies:
        before = 0
        for each in frames(anomaly, gather(run), read_holdings(run, ("events", 0), [])):
            start = before if each.start_ns is None else each.start_ns
            assert (start < before) == (each.seen_late is not None)
            before = max(before, start)


@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_a_send_without_an_acknowledgement_is_not_called_acknowledged(outcome: str) -> None:
    told = [witness(1.0, "producer", outcome, None, "m3 was not acknowledged.")]
    assert [title(name, each) for name, each in grouped(told)] == ["Written"]
