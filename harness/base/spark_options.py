"""Options for the Spark session that judges runs, for the command line, the API and tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Options of the Spark session that judges runs. By default, this process starts Spark.

    Attributes:
        master: URL of a Spark master (``local[4]``, ``spark://HOST:PORT``, …). None means
            ``local[*]``.
        remote: URL of a Spark Connect server (``sc://HOST:PORT``), instead of ``master``.
        session: a Spark session of the caller, classic or Connect, instead of ``master`` and
            ``remote``. The harness does not change its settings and does not stop it.
        driver_memory: heap of the JVM that this process starts. A server ignores it.
        conf: settings of Spark and of this project. With ``remote``, only settings that a session
            may change.
    """

    master: str | None = None
    remote: str | None = None
    session: "SparkSession | None" = None
    driver_memory: str = "2g"
    conf: Mapping[str, str] = field(default_factory=dict)


HERE: Final = SparkOptions()
"""The default options: Spark runs in this process and uses all cores of this machine."""
