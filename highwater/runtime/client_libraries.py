"""The library that a run's clients are of: librdkafka in this process, or Java in its own JVM."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.clients.libraries.interfaces import ClientLibrary
from highwater.harness.clients.libraries.keyed import KEYED
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.releases.client_choice import read_client
from highwater.harness.runs.plan import Plan

JAVA_LOG: Final = "java-clients.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLibrary:
    """A library that is ready to open clients.

    Attributes:
        close: ends all of its clients. Never raises.
    """

    library: ClientLibrary
    close: Callable[[], None] = lambda: None


def open_library(plan: Plan, logs: Path) -> OpenLibrary:
    """Return the library of a plan's clients; start a JVM for those of Java.

    Args:
        logs: folder of the run that gets the JVM's log lines.

    Raises:
        HarnessError: the JVM does not start, or its jars cannot be downloaded.
    """
    choice = read_client(plan.client, plan.played_on)
    if choice.release is None:
        return OpenLibrary(library=KEYED if plan.workload.keys else LIBRDKAFKA)
    from highwater.harness.clients.libraries.java import JavaClients  # noqa: PLC0415 - of Py4J
    from highwater.harness.clients.libraries.java_gateway import KafkaGateway  # noqa: PLC0415

    jvm = ClientJvm(choice.release, logs / JAVA_LOG)
    gateway = KafkaGateway(jvm.port, jvm.token, choice.release.number)

    def close() -> None:
        gateway.close()
        jvm.close()

    return OpenLibrary(library=JavaClients(gateway), close=close)
