"""``highwater check --jepsen FILE``: judge a history that Jepsen recorded."""

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.text import Text

from highwater import console
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.wording import count
from highwater.harness.runs.availability import NOT_OBSERVED

if TYPE_CHECKING:
    from highwater.checkers.jepsen.judge import Judgement

_CODES = {"valid": 0, "invalid": 1, "unknown": 3}


def check(file: Path, *, spark: SparkOptions, every: bool, ww: bool, as_json: bool) -> NoReturn:
    """Judge one history, print its anomalies, and exit with the verdict's code."""
    from highwater.checkers.jepsen.history_file import History
    from highwater.checkers.jepsen.judge import OPERATIONS_FILE, judge
    from highwater.checkers.spark.session import SparkStarter

    history = History(file)
    starter = SparkStarter(spark)
    with tempfile.TemporaryDirectory(prefix="highwater-jepsen-") as name:
        folder = Path(name)
        with console.waiting(f"judging {history.path} in Spark"):
            read = history.to_parquet(folder / OPERATIONS_FILE)
            judged = judge(history, read, starter.session(), folder, every=every, ww=ww)
        (_print_json if as_json else _show)(judged)
    raise typer.Exit(_CODES[judged.verdict])


def _print_json(judged: "Judgement") -> None:
    """Print the result as one JSON object; stream the anomalies, which may be many."""
    head = {
        "file": str(judged.history.path),
        "verdict": judged.verdict,
        "reasons": list(judged.reasons),
        "operations": judged.read.operations,
        "counts": judged.counts,
        "availability": None,
    }
    out = sys.stdout
    out.write(json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}"))
    out.write(',\n  "anomalies": [')
    comma = ""
    for anomaly in judged.anomalies():
        out.write(f"{comma}\n    {json.dumps(anomaly, ensure_ascii=False)}")
        comma = ","
    out.write("\n  ]\n}\n")


def _show(judged: "Judgement") -> None:
    from highwater.checkers.jepsen.judge import MEANS

    console.out.print(
        Text(judged.verdict.upper(), style=f"bold {console.COLOURS[judged.verdict]}"),
        Text(f"{judged.history.path}: {count(judged.read.operations, 'operation')} of clients"),
    )
    for doubt in judged.doubts:
        console.out.print(Text(f"  {doubt}"))
    console.out.print(f"  longest outages: {NOT_OBSERVED}")
    if not judged.counts:
        return
    first: dict[str, dict[str, Any]] = {}
    for anomaly in judged.anomalies():
        first.setdefault(anomaly["kind"], anomaly)
    rows = [
        [kind, str(count), judged.weight(kind), MEANS[kind], _sentence(first[kind])]
        for kind, count in judged.counts.items()
    ]
    names = ["anomaly", "found", "promise", "what it is", "for example"]
    console.out.print(console.table("Anomalies", names, rows))


def _sentence(anomaly: dict[str, Any]) -> str:
    names = ("key", "value", "values", "offset", "offsets", "delta", "skipped")
    values = [f"{name} {anomaly[name]}" for name in names if anomaly.get(name) is not None]
    seen = ", ".join(str(witness["index"]) for witness in anomaly["witnesses"])
    return "; ".join([*values, f"operations {seen}"])
