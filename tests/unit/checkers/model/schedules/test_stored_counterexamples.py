"""The counterexamples in docs/ are read, written and drawn as they are stored, byte for byte."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.campaigns.model_schedules import Source
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.harness.base.errors import UsageError
from highwater.reports.drawings.counterexample_svg import whole
from highwater.reports.drawings.transaction_svg import whole_transactions
from highwater.reports.html import drawing_css

FILES = sorted((Path(__file__).parents[5] / "docs/counterexamples").glob("*.json"))


def stored(path: Path) -> Counterexample | TransactionCounterexample:
    content = Source.load(path).content
    assert not isinstance(content, Schedule)
    return content


def only(written: Any, file: Any) -> Any:  # noqa: ANN401 - JSON
    """What was written, without what files have had since this one was stored."""
    if isinstance(written, dict):
        return {name: only(value, file[name]) for name, value in written.items() if name in file}
    if isinstance(written, list):
        return [only(value, of) for value, of in zip(written, file, strict=True)]
    return written


def test_none_is_left_out() -> None:
    assert len(FILES) == 27


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stored_counterexample_is_written_and_drawn_as_it_was(path: Path) -> None:
    read = stored(path)
    text = path.read_bytes()
    written = only(msgspec.json.decode(read.to_json()), msgspec.json.decode(text))
    assert msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n" == text
    if isinstance(read, Counterexample):
        drawn = whole(read, drawing_css())
    else:
        drawn = whole_transactions(read, drawing_css())
        assert TransactionCounterexample.from_plain(read.plain()) == read
    assert f"{drawn}\n" == path.with_suffix(".svg").read_text("utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_another_format_is_refused(path: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.json"
    newer.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "format": 2}))
    with pytest.raises(UsageError, match="has format 2, but this Highwater reads format 1"):
        stored(newer)
