"""Measure pytest's start without Kafka tests, in turns with and without Highwater's plugin."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROUNDS: Final = 15


def main() -> None:
    """Print both medians, and the median of the differences within a round."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_it.py").write_text("def test_it(): pass\n")
        took: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(ROUNDS):
            for name, words in (("without", ["-p", "no:highwater"]), ("with", [])):
                began = time.perf_counter()
                command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                took[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(times) for name, times in took.items()}
    extra = [b - a for a, b in zip(took["without"], took["with"], strict=True)]
    print(
        f"without {medians['without'] * 1e3:.0f} ms, with {medians['with'] * 1e3:.0f} ms:"
        f" {statistics.median(extra) * 1e3:+.0f} ms"
    )
