"""The Spark that judges runs, as the command line, the API and tests name it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """The Spark that judges; without any option, one of this process's own.

    Attributes:
        master: a master's URL (``local[4]``, ``spark://HOST:PORT``, …); None is ``local[*]``.
        remote: a Spark Connect server's URL (``sc://HOST:PORT``), instead of a master.
        session: a session of the caller's own, classic or Connect, instead of both. It is used as
            it is, and never stopped.
        driver_memory: heap of the JVM that this process starts; a server has its own.
        conf: Spark's settings, those of this project among them; with ``remote`` only such as a
            session may change.
    """

    master: str | None = None
    remote: str | None = None
    session: "SparkSession | None" = None
    driver_memory: str = "2g"
    conf: Mapping[str, str] = field(default_factory=dict)


HERE: Final = SparkOptions()
"""All cores of this machine, in a session that this process starts."""
