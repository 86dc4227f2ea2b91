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
        master: a master's URL (``local[4]``, ``spark://HOST:PORT``, …); None is ``local[*]``.
        remote: a Spark Connect server's URL (``sc://HOST:PORT``), instead of a master.
        session: the caller's own session, classic or Connect, instead of ``master`` and
            ``remote``. Its settings are not changed, and it is never stopped.
        driver_memory: heap of the JVM that this process starts; it does not apply to a server.
        conf: Spark's settings, and this project's own; with ``remote`` only settings that a
            session may change.
    """

    master: str | None = None
    remote: str | None = None
    session: "SparkSession | None" = None
    driver_memory: str = "2g"
    conf: Mapping[str, str] = field(default_factory=dict)


HERE: Final = SparkOptions()
"""All cores of this machine, in a session of this process."""
