"""Kafka's own Java clients: the command-line tools of a release, on the jars of that release."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.clusters.local.jvm_process import ChildProcess
from highwater.clusters.nodes.jvm import Runtime, command, environment, java, write_logging
from highwater.clusters.releases.jars import classpath, fetch, read_lock
from highwater.harness.releases.release import Release

PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
BOOTSTRAP_SERVER: Final = (2, 5)
"""Since then the consumer's option has this name (KIP-499)."""

_TOOLS: Final = "kafka-tools"
_JARS: Final = read_lock(Path(__file__).with_name("kafka-tools.toml"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaClient:
    """A running client.

    Attributes:
        output: a file of what it prints.
    """

    process: ChildProcess
    output: Path

    @property
    def runs(self) -> bool:
        """True until it has ended."""
        return self.process.state == "running"

    def await_end(self, limit_s: float) -> None:
        """Wait until it has ended well."""
        ended = self.process.wait(limit_s)
        assert (ended, self.process.status) == (True, 0), self.output.read_text("utf-8")


def has_java_client(release: Release) -> bool:
    """Return whether the tools of a release are locked."""
    return any((jar.artifact, jar.version) == (_TOOLS, release.version) for jar in _JARS)


@contextlib.contextmanager
def java_client(
    release: Release, main: str, arguments: list[str], folder: Path
) -> Iterator[JavaClient]:
    """Run a client; it is killed at the end of the block if it has not ended."""
    folder.mkdir()
    tools = [jar for jar in _JARS if jar.artifact != _TOOLS or jar.version == release.version]
    jars = [*classpath(release), *fetch(f"{_TOOLS}-{release.version}", tools)]
    runtime = Runtime(java=str(java()), jars=tuple(map(str, jars)), sharing=())
    line = command(runtime, main, arguments, heap_mb=128, properties=write_logging(release, folder))
    output = folder / "output"
    process = ChildProcess(
        folder.name, line, log=output, directory=folder, environment=environment()
    )
    try:
        yield JavaClient(process=process, output=output)
    finally:
        process.kill()


def producer_arguments(
    bootstrap: str, name: str, topic: str, payload: Path, *, records: int, rate: int
) -> list[str]:
    """Return the arguments of a producer of that client id, whose records are a file's line."""
    return [
        *("--topic", topic, "--num-records", str(records), "--throughput", str(rate)),
        *("--payload-file", str(payload), "--producer-props"),
        *(f"bootstrap.servers={bootstrap}", f"client.id={name}", "acks=all"),
        "max.in.flight.requests.per.connection=1",
    ]
