"""A session on a Spark Connect server: Spark itself does not run in this process."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

from highwater.checkers.spark.failures import first_line
from highwater.harness.base.cleanup import at_end
from highwater.harness.base.errors import HarnessError

_ANSWER_LIMIT_S: Final = 10.0
_RETRIES: Final = 6
"""The number of attempts to send a call, which take about half a minute. Spark's default attempts
take over ten minutes."""

_sessions: dict[str, SparkSession] = {}


def running(remote: str) -> SparkSession | None:
    """Return this process's session on a server, if there is one."""
    session = _sessions.get(remote)
    client: Any = getattr(session, "client", None)
    return None if session is None or client.is_closed else session


def start(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Start a session on a server.

    Args:
        remote: the server's URL.
        settings: the settings that a session may change; the server ignores other settings.

    Raises:
        HarnessError: the server does not respond, its Spark has another version, or it refuses the
            session.
    """
    place = remote.partition("/;")[0]  # what follows may be a password
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PySpark warns about a pandas that is newer than PySpark
            _await_answer(remote, place)
            session = _session(remote, settings)
            version = session.version
    except HarnessError:
        raise
    except Exception as error:
        raise HarnessError(
            f"the Spark Connect server {place} provides no session: {first_line(error)}"
        ) from error
    at_end(partial(_end, session))
    if _feature(version) != _feature(pyspark.__version__):
        raise HarnessError(
            f"the Spark Connect server {place} runs Spark {version}, but this machine has Spark "
            f"{pyspark.__version__}",
            hint=f"Install the server's release here, pip install 'pyspark[connect]=={version}',"
            " or start a server of this release.",
        )
    _sessions[remote] = session
    return session


def _await_answer(remote: str, place: str) -> None:
    """Wait at most 10 s until the server responds. Spark itself would try for ten minutes."""
    try:
        import grpc  # noqa: PLC0415 - needed here only
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - for the same reason
    except ImportError as error:
        raise HarnessError(
            f"Spark Connect needs libraries that are not installed: {first_line(error)}",
            hint=f"pip install 'pyspark[connect]=={pyspark.__version__}'",
        ) from error
    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=_ANSWER_LIMIT_S)
    except grpc.FutureTimeoutError:
        raise HarnessError(
            f"no Spark Connect server responds at {place} within {_ANSWER_LIMIT_S:g} s",
            hint="Start a server with sbin/start-connect-server.sh; docs/spark.md shows how.",
        ) from None
    finally:
        channel.close()


def _session(remote: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - for the same reason

    builder: Any = SparkSession.builder
    session: SparkSession = builder.remote(remote).config(map=dict(settings)).create()
    client: Any = session.client
    client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    return session


def _feature(version: str) -> list[str]:
    """Return the part of a version on which compatibility depends, such as 4.3 of 4.3.0."""
    return version.split(".")[:2]


def _end(session: SparkSession) -> None:
    client: Any = session.client
    client.set_retry_policies([])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
