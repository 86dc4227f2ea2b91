import errno
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.harness.runs.history import (
    FAULTS,
    OPERATIONS,
    StreamWriter,
    completed,
    read_stream,
    record_id,
    record_value,
    to_parquet,
)
from tests.support.commands import run_python


def fault(number: int) -> dict[str, object]:
    return {"time_ns": number, "fault": "kill", "phase": "inject", "says": f"it is {number}"}


def times(path: Path) -> list[int]:
    return [value for batch in read_stream(path) for value in batch.column("time_ns").to_pylist()]


@pytest.mark.parametrize("size", [0, 4, 5, 6, 7, 64, 10_000])
def test_a_record_says_its_own_name_at_any_size(size: int) -> None:
    value = record_value("p0-17", size)
    assert record_id(value) == "p0-17"
    assert len(value) == max(size, len("p0-17"))


@pytest.mark.parametrize(
    ("value", "name"), [(b"", ""), (b"\xff|x", "\\xff"), (b"a|b|c", "a"), (b"m3", "m3")]
)
def test_a_value_that_is_not_ours_still_has_a_name(value: bytes, name: str) -> None:
    assert record_id(value) == name


def test_a_stream_cut_anywhere_keeps_its_whole_batches(tmp_path: Path) -> None:
    whole = tmp_path / "whole.arrows"
    ends = []
    with StreamWriter(whole, FAULTS) as writer:
        for number in range(5):
            writer.append_rows([fault(number)])
            ends.append(whole.stat().st_size)
    data = whole.read_bytes()
    for length in range(ends[0], len(data), 7):
        cut = tmp_path / "cut.arrows"
        cut.write_bytes(data[:length])
        kept = sum(end <= length for end in ends)
        assert times(cut) == list(range(kept))


def test_a_stream_is_readable_before_anything_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "ops.arrows"
    StreamWriter(path, OPERATIONS)
    assert [batch.schema for batch in read_stream(path)] == [OPERATIONS]
    assert to_parquet(path, tmp_path / "ops.parquet") == 0
    assert pq.read_table(tmp_path / "ops.parquet").num_rows == 0


def test_a_stream_without_a_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.arrows"
    path.write_bytes(b"")
    with pytest.raises(pa.ArrowInvalid):
        list(read_stream(path))


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from highwater.harness.runs.history import FAULTS, StreamWriter
writer = StreamWriter(Path(sys.argv[1]), FAULTS)
number = 0
while True:
    writer.append_rows([{"time_ns": number, "fault": "f", "phase": "p", "says": "s" * 1000}])
    print(number, flush=True)
    number += 1
"""


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "faults.arrows"
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        last = -1
        while last < 50:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    found = times(path)
    assert found == list(range(len(found)))
    assert len(found) > last


WRITE_UNTIL_FULL = """
import resource, sys
from pathlib import Path
from highwater.harness.runs.history import FAULTS, StreamWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = StreamWriter(Path(sys.argv[1]), FAULTS)
number = 0
try:
    while True:
        writer.append_rows([{"time_ns": number, "fault": "f", "phase": "p", "says": "s" * 3000}])
        number += 1
except OSError:
    writer.abandon()
    print(number)
"""


@pytest.mark.slow
def test_a_full_disk_cuts_away_the_half_written_batch(tmp_path: Path) -> None:
    path = tmp_path / "faults.arrows"
    code, out, err = run_python(WRITE_UNTIL_FULL, path)
    assert code == 0, err
    written = int(out)
    assert written > 1
    assert times(path) == list(range(written))
    assert path.stat().st_size < 20_000
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_many_small_batches_become_few_row_groups(tmp_path: Path) -> None:
    stream, parquet = tmp_path / "ops.arrows", tmp_path / "ops.parquet"
    rows = 1_000
    with StreamWriter(stream, OPERATIONS) as writer:
        for number in range(rows):
            writer.append_rows(
                [{
                    "process": f"producer-{number % 7}", "kind": "send", "phase": "run",
                    "outcome": "ok", "invoke_ns": number, "topic": "events",
                    "value": f"p0-{number}",
                }]
            )  # fmt: skip
    assert to_parquet(stream, parquet) == rows
    assert not stream.exists()
    found = pq.ParquetFile(parquet)
    assert found.num_row_groups == 1
    table = found.read()
    assert table.column("value").to_pylist() == [f"p0-{number}" for number in range(rows)]
    assert table.column("process").to_pylist() == [f"producer-{n % 7}" for n in range(rows)]


def test_an_older_table_lacks_only_columns_that_were_added() -> None:
    row = {
        "time_ns": 1,
        "fault": "kill",
        "phase": "inject",
        "broker": 2,
        "says": "broker 2 is killed",
    }
    old = pa.Table.from_pylist([row])
    assert completed(old, FAULTS).to_pylist() == [row | {"removed": None, "step": None}]
    assert completed(old, FAULTS).schema.names == FAULTS.names
    with pytest.raises(KeyError, match="says"):
        completed(old.drop_columns(["says"]), FAULTS)


def test_a_disk_that_does_not_give_the_bytes_is_no_end_of_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are not there twice: a stream that cannot be read must stay."""
    stream = tmp_path / "ops.arrows"
    schema = pa.schema([("n", pa.int64())])
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for number in range(3):
            writer.write_table(pa.table({"n": [number]}))

    class Failing:
        def __init__(self, source: pa.NativeFile) -> None:
            self.schema = schema
            self._reader = pa.RecordBatchStreamReader(source)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            yield self._reader.read_next_batch()
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(pa.ipc, "open_stream", Failing)
    with pytest.raises(OSError, match="Input/output"):
        to_parquet(stream, tmp_path / "ops.parquet")
    assert stream.exists()
    assert not (tmp_path / "ops.parquet").exists()
