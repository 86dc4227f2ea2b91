"""Open a run's client libraries: librdkafka in this process, Java's in a JVM, others in drivers."""

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.clusters.local.client_driver import ClientDriverProcess
from highwater.clusters.local.client_jvm import ClientJvm
from highwater.clusters.nodes import broker_clock
from highwater.clusters.releases.client_wheels import wheel_folder
from highwater.clusters.releases.jars import clients_classpath
from highwater.harness.clients.libraries.interfaces import ClientLibrary
from highwater.harness.clients.libraries.keyed import KEYED
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.releases.client_choice import DRIVER, read_client
from highwater.harness.runs.plan import Plan
from highwater.nemesis.schedules.cluster_needs import client_clocks

CLIENTS_LOG: Final = "clients.log"
"""The log of the clients in this process. The clock of other client processes is beside it."""
JAVA_LOG: Final = "java-clients.log"
DRIVER_LOG: Final = "client-driver.log"
READERS_LOG: Final = "java-readers.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLibrary:
    """A client library that is ready to open clients.

    Attributes:
        close: closes all clients of the library; it never raises an error.
        names: the library names that client drivers have reported so far.
    """

    library: ClientLibrary
    close: Callable[[], None] = lambda: None
    names: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLibraries:
    """The libraries of a run's producers and readers.

    Attributes:
        close: closes all clients of both libraries; it never raises an error.
        names: the library names that the producers' drivers have reported so far.
    """

    producers: ClientLibrary
    readers: ClientLibrary
    close: Callable[[], None]
    names: Collection[str]


def download_libraries(plan: Plan) -> None:
    """Download missing libraries of a plan's clients.

    Raises:
        HarnessError: a Python wheel or a library's jars cannot be downloaded.
    """
    for word in {plan.client, plan.reader_client}:
        choice = read_client(word, plan.played_on)
        if choice.wheel:
            wheel_folder(choice.wheel)
        elif choice.release is not None:
            clients_classpath(choice.release)


def open_libraries(plan: Plan, logs: Path) -> OpenLibraries:
    """Open the libraries of a plan's clients; readers and producers may share one library.

    Args:
        logs: the run's folder for the log lines of JVMs and drivers.

    Raises:
        HarnessError: a JVM does not start, or a library's jars cannot be downloaded.
    """
    with contextlib.ExitStack() as opened:
        producers = open_library(plan, logs)
        opened.callback(producers.close)
        readers = producers
        if plan.reader_client != plan.client:
            readers = _opened(plan, plan.reader_client, logs / READERS_LOG)
            opened.callback(readers.close)
        close = opened.pop_all().close
    return OpenLibraries(
        producers=producers.library, readers=readers.library, close=close, names=producers.names
    )


def open_library(plan: Plan, logs: Path) -> OpenLibrary:
    """Open the library of a plan's producers."""
    return _opened(plan, plan.client, logs / JAVA_LOG)


def _opened(plan: Plan, word: str, jvm_log: Path) -> OpenLibrary:
    choice = read_client(word, plan.played_on)
    clock = jvm_log.with_name(CLIENTS_LOG) if client_clocks(plan) else None
    if choice.command:
        from highwater.harness.clients.drivers.driver_clients import DriverClients  # noqa: PLC0415 - for runs with it alone

        driver_log = jvm_log.with_name(DRIVER_LOG)
        command = choice.command
        if choice.wheel:
            command = ("env", f"PYTHONPATH={wheel_folder(choice.wheel)}", *command)
        if clock:
            command = tuple(broker_clock.command(command, clock))
        ours = choice.library != DRIVER
        driver = DriverClients(lambda: ClientDriverProcess(command, driver_log), every=ours)
        return OpenLibrary(library=driver, close=driver.close, names=driver.libraries)
    if choice.release is None:
        return OpenLibrary(library=KEYED if plan.workload.keys else LIBRDKAFKA)
    from highwater.harness.clients.libraries.java import JavaClients  # noqa: PLC0415 - of Py4J
    from highwater.harness.clients.libraries.java_gateway import KafkaGateway  # noqa: PLC0415

    with contextlib.ExitStack() as opened:
        jvm = ClientJvm(choice.release, jvm_log, clock)
        opened.callback(jvm.close)
        java = JavaClients(KafkaGateway(jvm.port, jvm.token, choice.release.number))
        opened.callback(java.close)
        return OpenLibrary(library=java, close=opened.pop_all().close)
