"""Failures of Spark: one line about a failure, and a check that Spark still responds."""

import re
from typing import Final

from pyspark.sql import SparkSession

from highwater.harness.base.errors import HarnessError

_LINE_MAX: Final = 300  # the number of characters of a crash that a verdict quotes

_RAISED: Final = re.compile(
    r"Traceback \(most recent .*?^((?!pyspark\.)[\w.]+: .+?)$", re.MULTILINE | re.DOTALL
)
"""The last line of a Python stack trace."""


def first_line(error: Exception) -> str:
    """Return the first informative line of an error, without Java's or Python's stack trace."""
    if raised := _RAISED.findall(str(error)):
        return re.sub(r"\s+", " ", raised[-1])[:_LINE_MAX]
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    telling = next((line for line in lines if not line.startswith("An error occurred")), "")
    return re.sub(r"\s+", " ", telling or type(error).__name__)[:_LINE_MAX]


def require_alive(session: SparkSession) -> None:
    """Raise an error if a session no longer responds. Its errors are not about a run."""
    try:
        session.sql("SELECT 1").collect()
    except Exception as error:
        raise HarnessError(
            "Spark ended while it was judging",
            hint="Verdicts and reports have not changed. Judge again: highwater check RUN",
        ) from error
