"""The geometry of drawings: scales, ticks, step paths, bars, thinning."""

import dataclasses
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from markupsafe import Markup

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.faults.message_spans import message_spans
from highwater.harness.runs.partition_trace import UNKNOWN, Leadership, Track, known_ranges
from highwater.reports.drawings.svg import (
    Scale,
    Share,
    bar,
    join,
    number,
    steps,
    svg,
    tag,
    text,
    ticks,
)
from highwater.reports.drawings.time_axis import LEFT, RIGHT, WIDTH
from highwater.reports.drawings.timeline import COLUMNS, _thinned, timeline
from highwater.reports.run_evidence import PartitionObservations, RunObservations, TruncationEvent
from highwater.reports.text import LONGEST, plain, seconds, short

SECOND = 1_000_000_000


def rects(markup: str, class_: str) -> list[tuple[float, float]]:
    """X and width of every rectangle of a class."""
    root = ET.fromstring(f"<g>{markup}</g>")  # noqa: S314 - our own drawing
    found = [r for r in root.iter() if r.tag.endswith("rect") and class_ in r.get("class", "")]
    return [(float(r.get("x", "")), float(r.get("width", ""))) for r in found]


def track(*rows: tuple[float, int, int]) -> Track:
    return Track.of(1, [(int(t * SECOND), leo, hw) for t, leo, hw in rows])


def test_a_tag_escapes_text_and_attributes_and_keeps_markup() -> None:
    made = tag("g", "<b>", Markup("<i/>"), class_='a"b', stroke_width=1.25, href=None)
    assert made == '<g class="a&#34;b" stroke-width="1.2">&lt;b&gt;<i/></g>'


@pytest.mark.parametrize(
    ("value", "words"), [(1.0, "1"), (1.26, "1.3"), (-0.04, "0"), (-0.06, "-0.1"), (10.0, "10")]
)
def test_coordinates_have_at_most_one_decimal(value: float, words: str) -> None:
    assert number(value) == words


def test_a_scale_is_linear_and_stays_inside_its_range() -> None:
    scale = Scale(lo=10, hi=20, start=100, end=200)
    assert [scale(v) for v in (10, 15, 20, 5, 99)] == [100, 150, 200, 100, 200]
    assert Scale(lo=3, hi=3, start=0, end=50)(3) == 25


@pytest.mark.parametrize(
    ("hi", "first", "last"), [(14.8, (0, 2), 14), (0.9, (0, 0.1), 0.9), (118, (0, 20), 100)]
)
def test_ticks_are_round_and_within_the_axis(
    hi: float, first: tuple[float, float], last: float
) -> None:
    found = ticks(hi)
    assert tuple(found[:2]) == first
    assert found[-1] == last
    assert len(found) <= 12


def test_a_step_path_holds_each_value_until_the_next() -> None:
    assert steps([(0, 9), (5, 9), (7, 4)]) == "M0 9H5H7V4"
    assert steps([]) == ""


def test_the_smallest_share_of_a_bar_is_seen_and_the_bar_keeps_its_width() -> None:
    shares = [
        Share(count=99_999, name="read", class_="ok"),
        Share(count=1, name="lost", class_="lost"),
        Share(count=0, name="unseen", class_="unknown"),
    ]
    drawn = rects(bar(0, 0, 660, 32, shares), "bar")
    assert drawn == [(0, 654), (654, 6), (654, 6)]  # the last one is the hatching of what is lost
    assert rects(bar(0, 0, 660, 32, []), "bar-empty") == [(0, 660)]


def test_a_drawing_names_itself_for_those_who_do_not_see_it() -> None:
    made = svg(10, 20, "A & B", "says <what>", text(1, 2, "x"), uid="u")
    root = ET.fromstring(made)  # noqa: S314 - our own drawing
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "u-t u-d"
    assert [child.text for child in root][:2] == ["A & B", "says <what>"]


def test_thinning_keeps_every_spike_and_bounds_the_points() -> None:
    times = np.arange(100_000, dtype=np.int64)
    values = times.copy()
    values[54_321] = 0
    time = Scale(lo=0, hi=100_000, start=0, end=COLUMNS)
    y = Scale(lo=0, hi=100_000, start=0, end=100)
    points = _thinned(times, values, 100_000, time, y)
    assert len(points) <= 4 * COLUMNS + 3
    assert min(py for px, py in points if px > 270) == 0
    assert points[-1][0] == COLUMNS


def test_lines_are_broken_where_a_broker_did_not_answer() -> None:
    assert known_ranges(track((0, 1, 1), (1, UNKNOWN, UNKNOWN), (2, 3, 3), (3, 4, 3)).leo) == [
        (0, 1),
        (2, 4),
    ]


def observed() -> tuple[PartitionObservations, RunObservations]:
    made = PartitionObservations(
        partition=("events", 0),
        tracks={1: track((0, 4, 4), (10, UNKNOWN, UNKNOWN)), 2: track((0, 4, 3), (12, 3, 3))},
        leaderships=(
            Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2)),
            Leadership(time_ns=12 * SECOND, leader=2, epoch=1, isr=(2,)),
        ),
        cuts=(TruncationEvent(time_ns=12 * SECOND, broker=2, offset=3),),
    )
    fault = FaultInterval(
        name="kill", broker=1, start_ns=10 * SECOND, end_ns=15 * SECOND, says="broker 1 is killed"
    )
    return made, RunObservations(
        partitions={made.partition: made},
        faults=(fault,),
        acks={made.partition: np.array([SECOND], np.int64)},
        end_ns=20 * SECOND,
    )


def test_a_timeline_puts_faults_leaders_cuts_and_isr_where_their_times_are() -> None:
    one, evidence = observed()
    drawn = timeline(one, evidence)
    wide = WIDTH - RIGHT - LEFT
    plain_svg = drawn.replace(' xmlns="http://www.w3.org/2000/svg"', "")
    ((start, width),) = rects(plain_svg, "fault")
    assert start == pytest.approx(LEFT + wide / 2, abs=0.1)
    assert width == pytest.approx(wide / 4, abs=0.1)
    bands = rects(plain_svg, "band")
    assert [x for x, _ in bands] == pytest.approx([LEFT, LEFT + wide * 0.6], abs=0.1)
    assert sum(w for _, w in bands) == pytest.approx(wide, abs=0.2)
    isr = rects(plain_svg, "isrbar")
    assert [w for _, w in isr] == pytest.approx([wide * 0.6, wide * 0.6, wide * 0.4], abs=0.2)
    assert "LEO 4 → 3" in drawn
    assert drawn.count('class="election"') == 1
    assert drawn.count('class="ack"') == 1


def test_a_timeline_is_told_in_words_too() -> None:
    one, evidence = observed()
    assert (
        "10.0 s: kill broker 1; 12.0 s: broker 2 leads; 12.0 s: broker 2 truncates to 3 or below"
        in (timeline(one, evidence))
    )


def test_many_acknowledgements_become_a_rate() -> None:
    one, evidence = observed()
    acks = np.linspace(0, 20 * SECOND, 100_000).astype(np.int64)
    many = RunObservations(
        partitions=evidence.partitions, acks={one.partition: acks}, end_ns=20 * SECOND
    )
    drawn = timeline(one, many)
    assert 'class="ack"' not in drawn
    found = re.search(r"100,000 acknowledged, at most ([\d,]+) records/s", drawn)
    assert found is not None
    assert int(found[1].replace(",", "")) == pytest.approx(5000, rel=0.02)


def test_control_and_bidi_characters_are_spelled_out() -> None:
    assert plain("a\u202eb\x00\x1b\u2066\ud800") == "a\\u202eb\\x00\\x1b\\u2066\\ud800"
    assert plain("größe → 漢字 🙂") == "größe → 漢字 🙂"


def test_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert plain("x" * 10_000) == "x" * LONGEST + "… (10,000 characters)"
    assert short("producer-0:17") == "…r-0:17"
    assert short("m3") == "m3"


def test_small_words() -> None:
    assert count(1, "record") == "1 record"
    assert count(1024, "record") == "1,024 records"
    assert seconds(2_409_000_000) == "2.409 s"
    assert seconds(None) == ""
    assert join(["<", Markup("<b>")]) == "&lt;<b>"


def test_an_unknown_hw_is_not_drawn_as_one() -> None:
    one, evidence = observed()
    blind = PartitionObservations(
        partition=one.partition,
        tracks={1: track((0, 4, UNKNOWN), (5, 5, 5))},
        leaderships=(),
        cuts=(),
    )
    drawn = timeline(blind, evidence)
    (hw,) = re.findall(r'<path d="(M[^"]+)" class="hwline"', drawn)
    (leo,) = re.findall(r'<path d="(M[^"]+)" class="leoline"', drawn)
    quarter = LEFT + (WIDTH - RIGHT - LEFT) / 4
    assert float(hw[1:].split(" ")[0]) == pytest.approx(quarter, abs=0.1)
    assert float(leo[1:].split(" ")[0]) == LEFT


def test_a_replica_has_a_strip_for_each_epoch_in_which_it_answered_and_did_not_lead() -> None:
    one, evidence = observed()
    leaderships = (
        Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2)),
        Leadership(time_ns=10 * SECOND, leader=3, epoch=1, isr=(3,)),
        Leadership(time_ns=15 * SECOND, leader=1, epoch=2, isr=(1,)),
    )
    slept = track((0.0, 3, 3), (8.0, UNKNOWN, UNKNOWN), (16.0, 3, 3))
    one = dataclasses.replace(one, leaderships=leaderships, tracks={2: slept})
    wide = WIDTH - RIGHT - LEFT
    found = rects(timeline(one, evidence), "epochs")
    assert [x for x, _ in found] == pytest.approx([LEFT, LEFT + wide * 0.8], abs=0.1)
    assert [w for _, w in found] == pytest.approx([wide * 0.4, wide * 0.2], abs=0.2)
    words = re.findall(r">(e\d)<", timeline(one, evidence))
    assert words.count("e0") == words.count("e2") == 1


def test_a_message_in_hand_is_drawn_for_as_long_as_it_was() -> None:
    rows: list[dict[str, object]] = [
        {"message": 1, "event": "caught", "time_ns": 1 * SECOND, "action": "hold"},
        {"message": None, "event": "passed", "time_ns": 2 * SECOND, "action": None},
        {"message": 1, "event": "client-gone", "time_ns": 2 * SECOND, "action": "hold"},
        {"message": 1, "event": "sent", "time_ns": 3 * SECOND, "action": "hold"},
        {"message": None, "event": "passed", "time_ns": 4 * SECOND, "action": None},
    ]
    ends = {"api": "EndTxn", "side": "request", "source": "client:p", "target": "broker-1"}
    [span] = message_spans([{**row, **ends} for row in rows])
    assert (span.start_ns, span.end_ns, span.overtaken) == (1 * SECOND, 3 * SECOND, 1)
    observed = PartitionObservations(
        partition=("t", 0), tracks={1: track((0, 0, 0), (4, 1, 1))}, leaderships=(), cuts=()
    )
    fault = FaultInterval(
        name="hold-message", broker=None, start_ns=0, end_ns=4 * SECOND, says="to be held"
    )
    evidence = RunObservations(messages=(span,), faults=(fault,), end_ns=4 * SECOND)
    made = timeline(observed, evidence)
    [(x, width)] = rects(made, "fault")
    a_second = (WIDTH - RIGHT - LEFT) / 4
    assert (x, width) == pytest.approx((LEFT + a_second, 2 * a_second), abs=0.1)
    assert "EndTxn client:p&gt;broker-1 held" in made
    assert "the client ended before the relay forwarded the message; number of later" in made
    assert "messages that the relay sent before this message: 1" in made
    assert "messages" not in timeline(observed, dataclasses.replace(evidence, messages=()))
