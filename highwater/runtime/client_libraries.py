"""The library that a run's clients are of: in this process, or Java's in its own JVM."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.clients.libraries.interfaces import ClientLibrary
from highwater.harness.clients.libraries.keyed import KEYED
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.releases.client_choice import AIOKAFKA, KAFKA_PYTHON, read_client
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


def open_library(plan: Plan, logs: Path, log: logging.Logger) -> OpenLibrary:
    """Return the library of a plan's clients; start a JVM for those of Java.

    Args:
        logs: folder of the run that gets the JVM's log lines.
        log: gets those of a library in this process.

    Raises:
        HarnessError: the JVM does not start, or its jars cannot be downloaded.
    """
    choice = read_client(plan.client, plan.played_on)
    if choice.library == KAFKA_PYTHON:
        from highwater.harness.clients.libraries.kafka_python import kafka_python_clients  # noqa: PLC0415 - for runs with it alone

        kafka_python = kafka_python_clients(log)
        return OpenLibrary(library=kafka_python, close=kafka_python.close)
    if choice.library == AIOKAFKA:
        from highwater.harness.clients.libraries.aiokafka_clients import aiokafka_clients  # noqa: PLC0415 - for the same reason

        aiokafka = aiokafka_clients(log)
        return OpenLibrary(library=aiokafka, close=aiokafka.close)
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
