"""Small histories of Jepsen's, each with the anomalies that it must show and no others.

``fixtures/jepsen/cases.edn`` holds them all: a line ``;;`` names a history, ``;; with ww-deps`` has
cycles count the order of writes, and each line ``;=>`` is one anomaly of it. What stands there was
held against Jepsen's own checker; ``docs/jepsen.md`` says where we differ on purpose.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from highwater.checkers.anomalies.find import find
from highwater.checkers.cycles import cycles
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.jepsen.history_file import History
from highwater.checkers.jepsen.jepsen_fields import entry
from highwater.checkers.jepsen.judge import MEANS
from highwater.checkers.run_rows import in_order
from highwater.checkers.spark.engine import Engine
from highwater.checkers.spark.session import spark

CASES: Final = Path(__file__).parents[2] / "fixtures" / "jepsen" / "cases.edn"
SHOWN: Final = ("key", "value", "offset", "offsets", "values", "delta", "skipped", "why")

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def cases() -> list[tuple[str, str]]:
    """Name and text of each history."""
    parts = re.split(r"^;; (.*)\n", CASES.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def told(anomaly: dict[str, Any]) -> str:
    """An anomaly in one line, as the fixture has it."""
    fields = [f"{name} {json.dumps(anomaly[name])}" for name in SHOWN if name in anomaly]
    steps = [f"{one['type']} {one['from']}->{one['to']}" for one in anomaly.get("steps", ())]
    seen = ",".join(str(witness["index"]) for witness in anomaly["witnesses"])
    return " ".join([anomaly["kind"], *fields, *steps, f"by {seen}"])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is found in each history, of all of them in one pass."""
    folder = tmp_path_factory.mktemp("cases")
    names = [name for name, _ in cases()]
    histories = []
    for number, (_, text) in enumerate(cases()):
        path = folder / f"{number}.edn"
        path.write_text(text, "utf-8")
        histories.append(History(path))
        part = folder / "operations" / f"run={number}" / "part.parquet"
        part.parent.mkdir(parents=True)
        histories[-1].to_parquet(part)
    session = spark()
    operations = in_order(session.read.parquet(str(folder / "operations")))
    with Engine(session) as engine:
        view = ClientHistory(engine, operations, operations.count())
        rows = [
            (ww, row)
            for ww, some in (
                (False, cycles.find(view, ww=False)),
                (True, cycles.find(view, ww=True)),
                (None, find(view)),
            )
            for row in ([] if some is None else some.table().to_pylist())
        ]
    result: dict[str, list[str]] = {name: [] for name in names}
    for ww, row in rows:
        number = int(row["run"])
        if ww in (None, names[number].endswith("with ww-deps")):
            anomaly = entry(row, histories[number])
            result[names[number]].append(told(anomaly))
    return result


@pytest.mark.parametrize(("name", "text"), cases(), ids=[name for name, _ in cases()])
def test_each_history_shows_its_anomalies(
    name: str, text: str, found: dict[str, list[str]]
) -> None:
    wanted = re.findall(r"^;=> (.*)$", text, flags=re.MULTILINE)
    assert sorted(found[name]) == sorted(wanted)


def test_every_kind_is_among_them() -> None:
    shown = set(re.findall(r"^;=> (\S+)", CASES.read_text("utf-8"), flags=re.MULTILINE))
    assert set(MEANS) == shown
