"""Prepare Spark's workers: send this project's packages to them, and test their imports.

A worker imports kernels (functions over Arrow tables) by name, from a zip that the session sends.
The libraries of these modules must be installed on the worker (docs/spark.md).
"""

import hashlib
import importlib
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession

from highwater.checkers.spark.failures import first_line
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.scratch import scratch

PACKAGES: Final = ("highwater.checkers", "highwater.harness")
"""The packages of this project that a worker needs."""

_TASKS: Final = 8
_FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)
_KERNELS: Final = "highwater.checkers.judge"
"""A module whose import imports every kernel."""

_LACKS: Final = (
    (
        r"No module named '([\w.]+)'",
        "Spark's workers have no Python package {0}",
        "Install the packages that docs/spark.md names on every worker.",
    ),
    (
        r"PYTHON_VERSION_MISMATCH\]? *(.*?\d+\.\d+[^.]*\d+\.\d+)",
        "Spark's workers have another Python than this process: {0}",
        "Use one Python X.Y on both; --spark-conf spark.pyspark.python=… sets the workers' Python.",
    ),
    (
        r'Cannot run program "([^"]+)"',
        "Spark's workers lack {0}, the Python that they should run",
        "Name a Python that they have: --spark-conf spark.pyspark.python=/path/to/python",
    ),
)
"""Patterns of errors of a failed import test, each with its meaning and its remedy."""

_prepared: WeakSet[SparkSession] = WeakSet()


def prepare(session: SparkSession) -> None:
    """Send Highwater's packages to a session's workers, once, and test the import.

    Raises:
        HarnessError: a worker lacks a package, or has another Python version.
    """
    if session in _prepared:
        return
    try:
        session.addArtifacts(str(packed()), pyfile=True)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PySpark warns about a pandas that is newer than PySpark
            session.range(0, _TASKS, 1, _TASKS).mapInArrow(_try, "id long").count()
    except Exception as error:
        raise _lack(error) from error
    _prepared.add(session)


def packed() -> Path:
    """Return the path of a zip of Highwater's packages. Equal sources give equal bytes.

    The zip exists until the process ends, because Spark sends it to every new worker.
    """
    sources = dict(_sources())
    digest = hashlib.sha256(b"\0".join(name.encode() + text for name, text in sources.items()))
    path = scratch("packed") / f"highwater-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sources.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST_DAY), text, zipfile.ZIP_DEFLATED)
    return path


def _sources() -> Iterator[tuple[str, bytes]]:
    yield "highwater/__init__.py", b""
    for package in PACKAGES:
        (folder,) = importlib.import_module(package).__path__
        for path in sorted(Path(folder).rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            yield f"{package.replace('.', '/')}/{name}", path.read_bytes()


def _try(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module(_KERNELS)
    yield from batches


def _lack(error: Exception) -> HarnessError:
    text = str(error)
    for pattern, means, hint in _LACKS:
        if match := re.search(pattern, text, re.DOTALL):
            return HarnessError(means.format(re.sub(r"\s+", " ", match[1])), hint=hint)
    return HarnessError(f"Spark's workers cannot judge: {first_line(error)}")
