"""A JVM with the Java clients of a Kafka release. The harness calls the JVM by Py4J.

The JVM's main class is Py4J's ``GatewayServer``. The server takes a free port of the loopback
address, makes a token that every client must send, and prints the port and the token.
"""

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from highwater.clusters.local.jvm_process import ChildProcess
from highwater.clusters.nodes import broker_clock, jvm
from highwater.clusters.releases.jars import clients_classpath
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.scratch import scratch
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release

HEAP_MB: Final = 256
_MAIN: Final = "py4j.GatewayServer"
_STARTS_S: Final = 60.0
_GREETING: Final = 2
"""Number of lines that the JVM prints at first: its port and its token."""


class ClientJvm:
    """A running JVM with the Kafka clients of a release on its class path.

    Args:
        log: file to which the JVM writes its log.
        clock: path of a log; the JVM has the clock of the file beside it (``broker_clock``). None:
            the JVM has the clock of this machine.

    Attributes:
        port: port on which the JVM listens.
        token: token that a client must send.

    Raises:
        HarnessError: the JVM does not start.
    """

    def __init__(self, release: Release, log: Path, clock: Path | None = None) -> None:
        self.release = release
        self._folder = scratch("java-clients")
        runtime = jvm.Runtime(
            java=str(jvm.java()),
            jars=(str(_gateway_jar()), *map(str, clients_classpath(release))),
            sharing=(),
        )
        command = jvm.command(
            runtime,
            _MAIN,
            ["--enable-auth", "0"],
            heap_mb=HEAP_MB,
            properties={
                "java.io.tmpdir": str(self._folder),  # SIGKILL ends the JVM, so it leaves files
                **jvm.write_logging(release, self._folder, into=log),
            },
        )
        self._output = self._folder / "output"
        self._process = ChildProcess(
            f"the Java clients of {release.name}",
            broker_clock.command(command, clock) if clock else command,
            log=self._output,
            directory=self._folder,
            environment=jvm.environment(),
        )
        try:
            port, self.token = await_condition(
                self._greeting,
                lambda lines: len(lines) == _GREETING,
                what="the JVM of the Java clients to listen",
                limit_s=_STARTS_S,
                every_s=0.02,
            )
            self.port = int(port)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the JVM and its guard."""
        return self._process.pids

    def close(self) -> None:
        """Kill the JVM. Never raises an error. A second call does nothing."""
        with contextlib.suppress(HarnessError):
            self._process.kill()
        self._process.release()

    def _greeting(self) -> list[str]:
        text = self._output.read_text("utf-8", "replace")
        if self._process.state == "down":
            raise HarnessError(
                f"the JVM of the Java clients exited early. Its output: {text.strip() or '(none)'}"
            )
        return [line for line in text.splitlines()[:_GREETING] if text.endswith(os.linesep)]


def _gateway_jar() -> Path:
    """Return the path of Py4J's jar in the package pyspark.

    Raises:
        HarnessError: pyspark has no such jar.
    """
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")
    for path in sorted(folder.glob("py4j-*.jar")):
        return path
    raise HarnessError(
        f"there is no py4j-*.jar in {folder}",
        hint="The jar comes with the Python package pyspark: reinstall pyspark.",
    )
