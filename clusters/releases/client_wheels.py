"""Python wheels of other releases of client libraries: one cache directory for each release."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import exclusive
from highwater.harness.base.user_dirs import cache_directory

_PIP: Final = (
    *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"),
    *("--only-binary", ":all:", "--target"),
)


def wheel_folder(requirement: str) -> Path:
    """Return the directory from which Python imports a package. If it is missing, pip downloads it.

    Several threads and processes may call this function at once.

    Args:
        requirement: the package and its release, as in ``confluent-kafka==2.10.0``.

    Raises:
        HarnessError: this Python has no pip, or there is no such wheel for this Python.
    """
    clients = cache_directory() / "clients"
    clients.mkdir(parents=True, exist_ok=True)
    folder = clients / f"{requirement}-{sys.implementation.cache_tag}"
    with exclusive(clients / f"{folder.name}.lock"):
        if folder.is_dir():
            return folder
        whole = tempfile.mkdtemp(dir=clients)
        done = subprocess.run(
            [*_PIP, whole, requirement], check=False, capture_output=True, text=True
        )
        if done.returncode:
            shutil.rmtree(whole, ignore_errors=True)
            last_line = (done.stderr.splitlines() or ["nothing"])[-1]
            raise HarnessError(f"pip cannot install {requirement}. Its last line is: {last_line}")
        Path(whole).rename(folder)
    return folder
