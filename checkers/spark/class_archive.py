"""The archive of classes from which Spark's JVM starts; see ``harness.base.jvm_class_archive``.

With the archive, a first judgement takes less processor time (docs/results.md).
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from highwater.harness.base import jvm_class_archive
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import Flags, Program

_LIMIT_S: Final = 240.0


def flags(java_home: Path) -> Flags:
    """Return JVM flags that use the archive. Make the archive on the first call."""
    jars = Path(pyspark.__file__).parent / "jars"
    program = Program(
        name="spark",
        java=java_home / "bin" / "java",
        # The JVM accepts an archive only with the same jars at the same paths.
        jars=f"{jars} {jars.stat().st_mtime_ns}".encode(),
    )
    return jvm_class_archive.flags(program, _rehearse)


def _rehearse(sharing: Flags) -> None:
    """Judge an artificial run in a child process, which never outlives this process."""
    command = [sys.executable, "-m", "highwater.checkers.archive_training", *sharing]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as child:
        try:
            code = child.wait(_LIMIT_S)
        finally:
            child.kill()
    if code:
        raise HarnessError(f"the run that makes Spark's class archive ended with exit code {code}")
