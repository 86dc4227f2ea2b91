"""What a report rests on: raw records, brokers' log lines, effects of faults, and assumptions."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from highwater.harness.runs.history import LOG_LINES
from highwater.harness.runs.store import Run, StandingEnd
from highwater.reports.pages.run import write
from highwater.reports.run_evidence import gather
from highwater.reports.sections.assumptions import Assumption, assumptions
from highwater.reports.sections.broker_log_excerpts import LINES_MAX, around
from highwater.reports.sections.fault_effects import effects
from highwater.reports.sections.raw_records import BYTES_MAX, RawRecord, read_raw
from tests.browser.sample import TOPIC, ns
from tests.browser.samples import SAMPLES
from tests.browser.stories import lost_anomaly


def fields(raw: RawRecord) -> dict[str, str]:
    return {one.name: one.value for one in raw.fields}


def test_a_raw_record_has_its_place_and_every_field(tmp_path: Path) -> None:
    run = Run(tmp_path)
    batch = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=7, producer_epoch=1,
        base_sequence=40, batch_size=1 << 20,
    )  # fmt: skip
    for n in range(2):
        batch.append(
            n, 1_000 + n, b"<k>", bytes(BYTES_MAX + 1), [("trace", b"\x00\xff"), ("n", None)]
        )
    folder = run.replicas / "3" / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(batch.build())
    (run.replicas / "2" / f"{TOPIC}-0").mkdir(parents=True)
    missing: list[str] = []
    nothing, found = read_raw(run, (TOPIC, 0), [1], missing)[1]
    assert (nothing.broker, nothing.fields, missing) == (2, (), [])
    assert (found.file, found.position) == (f"replicas/3/{TOPIC}-0/{0:020}.log", 0)
    told = fields(found)
    assert told["producer"] == "id 7, epoch 1, sequence 41, transactional"
    assert told["headers"] == "trace: \\x00\\xff; n: null"
    assert told["key"] == "<k>"
    assert told["value"].endswith(f"… ({BYTES_MAX + 1} bytes)")
    assert told["timestamp"] == "1001 ms, by the producer's clock"
    assert told["batch"] == "offsets 0 to 1, format v2, compression none"
    assert told["checksum"].endswith("matches")


def test_a_page_shows_what_each_disk_has_at_the_offset(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    html = write(run).read_text("utf-8")
    raw = html.split("<summary>Raw records at offset 3")[1].split("</details>")[0]
    assert raw.count('<th scope="row">') == 3
    assert raw.count("format v1") == 3
    for folder in run.replicas.glob("2/*/*.log"):
        folder.write_bytes(b"")
    raw = write(run).read_text("utf-8").split("<summary>Raw records at offset 3")[1]
    assert raw.split("</details>")[0].count("This replica holds nothing at this offset.") == 1


def lines(times: list[int]) -> pa.Table:
    row = {"broker": 1, "kind": "truncation", "topic": TOPIC, "partition": 0, "offset": 3}
    rows = [{**row, "time_ns": time, "line": f"line {i}"} for i, time in enumerate(times)]
    return pa.Table.from_pylist(rows, schema=LOG_LINES)


def test_log_lines_are_those_about_the_partition_and_those_nearest_where_they_are_many() -> None:
    anomaly = lost_anomaly()
    last = max(w.time_ns for w in anomaly.witnesses if w.time_ns is not None)
    foreign = pa.Table.from_pylist(
        [
            {"time_ns": last, "broker": 1, "kind": "truncation", "topic": "other", "partition": 0,
             "offset": 0, "line": "of another topic"},
            {"time_ns": last, "broker": 1, "kind": "error", "topic": None, "partition": None,
             "offset": None, "line": "of nobody knows what"},
            {"time_ns": last, "broker": -1, "kind": "start", "topic": None, "partition": None,
             "offset": None, "line": "a start"},
        ],
        schema=LOG_LINES,
    )  # fmt: skip
    few = around(pa.concat_tables([lines([last, last + ns(60)]), foreign]), anomaly)
    assert [one.says for one in few.lines] == ["a start", "line 0"]
    assert few.lines[0].who == "controller"
    many = around(lines([last + i * 1_000_000 for i in range(LINES_MAX + 5)]), anomaly)
    assert [one.says for one in many.lines] == [f"line {i}" for i in range(LINES_MAX)]
    assert many.left_out == 5


def rested(run: Run) -> dict[str, Assumption]:
    evidence = gather(run)
    found = assumptions(run, run.plan(), run.status(), run.verdict(), evidence, effects(evidence))
    return {one.name: one for one in found}


FAULTS = "Every fault had an effect"
WINDOW = "The HW-lag window was open at a fault"
SIGHT = "Every broker was observed at all times without a fault"
PASSED = "The final read passed every acknowledged record"
CLOCKS = "The clocks of the brokers and of the observer agree"
FLUSH = "Brokers use Kafka's default flush settings"


def test_effects_are_observed_and_the_window_was_open(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    struck = effects(gather(run))
    assert [one.fault.name for one in struck] == ["kill", "kill"]
    assert all("did not respond from" in one.seen[0] for one in struck)
    assert any("LEO 4, HW 3" in each for one in struck for each in one.window)
    found = rested(run)
    assert (found[FAULTS].word, found[WINDOW].word) == ("held", "held")


def test_a_fault_that_nobody_saw_is_not_observed(tmp_path: Path) -> None:
    sample = SAMPLES["loss"]()
    sample.faults = [(1.0, "pause", "inject", 2, "Broker 2 is paused."),
                     (1.1, "pause", "heal", 2, "Broker 2 goes on.")]  # fmt: skip
    found = rested(sample.write(tmp_path))
    assert found[FAULTS].word == "not observed"
    assert "0 of 1 fault" in found[FAULTS].observed
    assert "pause at 1.00 s" in found[FAULTS].observed


def test_nothing_is_known_of_faults_whose_table_is_missing(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    run.parquet("events/faults").unlink()
    found = rested(run)[FAULTS]
    assert (found.word, found.observed) == ("not observed", "events/faults is missing.")


def test_a_blind_spell_outside_of_faults_is_said(tmp_path: Path) -> None:
    sample = SAMPLES["loss"]()
    sample.faults = []
    found = rested(sample.write(tmp_path))
    assert found[SIGHT].word == "not held"
    assert "although the broker had no fault: broker 1 of events-0 for" in found[SIGHT].observed
    assert found[WINDOW].word == "not observed"


def test_flushes_are_what_the_brokers_logged(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    assert rested(run)[FLUSH].word == "not observed"
    run.logs.mkdir()
    log = run.logs / "broker-1.log"
    log.write_text("\tlog.flush.interval.messages = 9223372036854775807\n"
                   "\tlog.flush.interval.ms = null\n")  # fmt: skip
    assert rested(run)[FLUSH].word == "held"
    log.write_text("\tlog.flush.interval.messages = 1\n")
    assert rested(run)[FLUSH].word == "not held"
    assert "log.flush.interval.messages = 1." in rested(run)[FLUSH].observed


@pytest.mark.parametrize(("late", "word"), [(0.05, "held"), (2.0, "not held")])
def test_clocks_are_compared_by_cuts_that_both_saw(tmp_path: Path, late: float, word: str) -> None:
    sample = SAMPLES["loss"]()
    [(time, leo)] = [
        (after[0], after[1])
        for before, after in zip(sample.replicas[3], sample.replicas[3][1:], strict=False)
        if None not in (before[1], after[1]) and (after[1] or 0) < (before[1] or 0)
    ]
    sample.cuts = [(time - late, 3, leo or 0, "Truncating log events-0")]
    assert rested(sample.write(tmp_path))[CLOCKS].word == word


def test_a_clock_of_the_observer_that_moved_is_said(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    run.write_struct("status.json", msgspec.structs.replace(run.status(), clock_step_s=-3600.0))
    found = rested(run)[CLOCKS]
    assert (found.word, "was moved by -3,600.0 s" in found.observed) == ("not held", True)


def test_nothing_observed_is_not_observed(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    for table in run.path.glob("*/*.parquet"):
        table.unlink()
    found = rested(run)
    assert [found[name].word for name in (SIGHT, WINDOW, CLOCKS)] == ["not observed"] * 3


def test_a_final_read_that_came_short_is_said(tmp_path: Path) -> None:
    ledger = msgspec.structs.replace(SAMPLES["loss"]().verdict.ledger, unseen=2)
    found = rested(SAMPLES["loss"]().judged(ledger=ledger).write(tmp_path))[
        "The final read passed every acknowledged record"
    ]
    assert (found.word, found.observed) == ("not held", "The final read did not reach 2 records.")


def test_a_last_stable_offset_that_stood_is_said(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    end = StandingEnd(partition=0, lso=4, fence=7, seconds=5.04)
    run.write_struct("status.json", msgspec.structs.replace(run.status(), standing=(end,)))
    found = rested(run)[PASSED]
    assert (found.word, found.observed) == (
        "not held",
        (
            "In partition 0 an open transaction blocked the last stable offset at 4 for 5.0 s,"
            " before the fence (last record) at 7."
        ),
    )
