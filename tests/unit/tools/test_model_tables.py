"""The tables of docs/model.md: what was measured, in as few rows as it takes."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from tests.browser.lineage import lost
from tools import model_tables
from tools.model_tables import Results, drawings, mutations, replays, searches

HELD = dict.fromkeys(model_tables.PROMISES)
FOUND = msgspec.convert(
    {
        "scopes": [
            {
                "kafka": kafka, "acks": "all", "min_isr": 1, "brokers": 3, "records": 2,
                "failures": 1, "moves": 2, "late": 0, "states": 1234, "depth": 21, "seconds": 2.0,
                "exhausted": kafka != "4.3.1",
                "invariants": HELD if kafka > "2" else {
                    **HELD, "acked-kept": {"depth": 9, "counterexample": "lost.json"},
                },
            }
            for kafka in ("4.3.1", "0.10.2.2", "0.9.0.1", "2.8.2")
        ],
        "replays": [
            {"counterexample": "lost.json", "kafka": "0.10.2.2", "runs": 5, "reproduced": 5},
            {"counterexample": "lost.json", "kafka": "2.8.2", "runs": 5, "reproduced": 0},
            {"counterexample": "a.json", "kafka": "2.0.0", "runs": 5, "reproduced": 4,
             "note": "One was missed."},
        ],
        "mutations": [
            {"switch": "epochs", "kafka": "4.3.1", "invariant": "acked-kept", "depth": 9,
             "states": 77, "scope": "3 brokers"},
            {"switch": "elr", "kafka": "4.3.1", "invariant": None, "depth": None,
             "states": 7777, "scope": "3 brokers"},
        ],
    },
    Results,
)  # fmt: skip


def test_releases_alike_share_a_row_and_each_cell_says_what_was_found() -> None:
    lines = searches(FOUND.scopes).splitlines()
    assert lines[0].startswith("**acks=all, min.insync.replicas=1**, clean elections; 3 brokers")
    old, new, newest = lines[4:]
    steps = "**[9 steps](counterexamples/lost.svg)**"
    assert old.startswith(f"| 0.9.0.1, 0.10.2.2 | 1 | {steps} | holds |")
    assert old.endswith("| 1,234 | 21 |")
    assert new.startswith("| 2.8.2 | 1 | holds |")
    assert newest.startswith("| 4.3.1 | 1 | not broken so far |")


def test_bounds_apart_are_tables_apart() -> None:
    other = msgspec.structs.replace(FOUND.scopes[0], min_isr=2)
    assert searches([*FOUND.scopes, other]).count("| Kafka | failures |") == 2


def test_a_counterexample_is_reproduced_here_and_kept_there() -> None:
    first, second = replays(FOUND.replays).splitlines()[2:]
    assert first == "| [lost](counterexamples/lost.svg) | 0.10.2.2: 5 of 5 | 2.8.2: 5 of 5 |  |"
    assert second == "| [a](counterexamples/a.svg) | 2.0.0: 4 of 5 |  | One was missed. |"


def test_a_rule_that_nothing_needs_says_so() -> None:
    needed, idle = mutations(FOUND.mutations).splitlines()[2:]
    assert needed == "| `epochs` | 4.3.1 | `acked-kept` | 9 | 77 | 3 brokers |"
    assert idle == "| `elr` | 4.3.1 | nothing | - | 7,777 | 3 brokers |"


def test_what_was_not_measured_has_no_table() -> None:
    assert searches(()) == replays(()) == mutations(()) == ""


def test_every_stored_counterexample_has_a_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_tables, "DOCS", tmp_path)
    (tmp_path / "counterexamples").mkdir()
    (tmp_path / "counterexamples" / "lost.json").write_bytes(lost().to_json())
    ((name, drawn),) = drawings().items()
    assert name == "counterexamples/lost.svg"
    assert ET.fromstring(drawn()).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - ours
