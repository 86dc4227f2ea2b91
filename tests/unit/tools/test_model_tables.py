"""The tables of the model: what was measured, in as few rows as it takes."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import PROMISES
from tests.browser.lineage import lost
from tools import model_tables
from tools.model_tables import Results, drawings, other_searches, replays, rules, searches

HELD = dict.fromkeys(PROMISES)
FOUND = msgspec.convert(
    {
        "scopes": [
            {
                "kafka": kafka, "scope": {"records": 2, "failures": 1, "moves": 2},
                "states": 1234, "depth": 21, "seconds": 2.0, "exhausted": kafka != "4.3.1",
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


HEADS = "| bounds | releases | broken after steps |\n| --- | --- | --- |\n"
OTHERS = "`model-results.json` also has searches with other bounds, in which all invariants hold: "


def test_releases_alike_share_a_row_that_says_what_breaks() -> None:
    assert searches(FOUND.scopes) == HEADS + (
        "| 3 brokers, 2 records, 2 moves, 1 failure | 0.9.0.1, 0.10.2.2 |"
        " `acked-kept` [9](counterexamples/lost.svg) |\n"
        "|  | 2.8.2 | all hold |\n"
        "|  | 4.3.1 | all hold (cut short) |\n"
    )


def test_bounds_in_which_all_holds_are_counted() -> None:
    other = msgspec.structs.replace(FOUND.scopes[0], scope=Scope(min_isr=2))
    text = searches([*FOUND.scopes, other])
    assert text.count("| 3 brokers") == 1
    assert text.endswith(f"|\n\n{OTHERS}1 with no rule changed.\n"), text


def test_bounds_in_which_all_holds_are_counted_for_each_rule_that_was_switched() -> None:
    held = msgspec.structs.replace(FOUND.scopes[3], switched={"epochs": True})
    assert searches([held, FOUND.scopes[3]]) == (
        f"{OTHERS}1 with no rule changed, 1 with `epochs` on.\n"
    )


def test_a_search_of_fewer_invariants_names_them() -> None:
    less = msgspec.structs.replace(FOUND.scopes[3], invariants={"gapless": None})
    assert "|  | 2.8.2 | all hold (`gapless`) |\n" in searches([*FOUND.scopes[:3], less])


def test_clients_of_transactions_alike_share_a_row() -> None:
    search = model_tables.SearchedOther(
        kafka="3.9.2", client="java", bounds={"late": 1, "late_controls": 0}, states=5, depth=4,
        seconds=1.0, broken={"goes-on": 14, "ends": 14},
    )  # fmt: skip
    other = msgspec.structs.replace(search, client="java-v1")
    assert other_searches([search, other]) == HEADS + (
        "| late 1 | java 3.9.2, java-v1 3.9.2 | `goes-on`, `ends` 14 |\n"
    )
    quorum = msgspec.structs.replace(search, client="", bounds={"voters": 3, "wipes": 1})
    assert other_searches([quorum]) == f"{HEADS}| wipes 1 | 3.9.2 | `goes-on`, `ends` 14 |\n"


def test_a_counterexample_is_reproduced_here_and_kept_there() -> None:
    first, second = replays(FOUND.replays).splitlines()[2:]
    assert first == "| [lost](counterexamples/lost.svg) | 5/5 on 0.10.2.2 | 5/5 on 2.8.2 |  |"
    assert second == "| [a](counterexamples/a.svg) | 4/5 on 2.0.0 |  | One was missed. |"


def test_a_rule_says_what_breaks_without_it() -> None:
    lines = {line.split("`")[1]: line for line in rules(FOUND.mutations).splitlines()}
    assert lines["epochs"].startswith("- `epochs` (since 0.11.0.2): A new follower asks")
    assert lines["epochs"].endswith(" *acked-kept, 9 steps (4.3.1).*")
    assert lines["elr"].endswith("stay eligible to lead.")


def test_what_was_not_measured_has_no_list() -> None:
    assert searches(()) == replays(()) == other_searches(()) == ""


def test_every_stored_counterexample_has_a_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_tables, "DOCS", tmp_path)
    (tmp_path / "counterexamples").mkdir()
    (tmp_path / "counterexamples" / "lost.json").write_bytes(lost().to_json())
    ((name, drawn),) = drawings().items()
    assert name == "counterexamples/lost.svg"
    assert ET.fromstring(drawn()).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - ours
