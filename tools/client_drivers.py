"""Build the client drivers of docs/examples/drivers, each with one release of its library.

    python -m tools.client_drivers FOLDER [NAME@RELEASE ...]

The tool writes a program for each driver to the folder: ``highwater run --client FOLDER/franz-go``.
If names are given, it builds only these drivers, such as ``FOLDER/franz-go@v1.20.7``.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent.parent / "docs" / "examples" / "drivers"
LIBRARIES: Final = {
    "franz-go": ("franz_go.go", "github.com/twmb/franz-go@v1.22.3"),
    "sarama": ("sarama.go", "github.com/IBM/sarama@v1.61.1"),
    "kafkajs": ("kafkajs.mjs", "kafkajs@2.2.4"),
    "platformatic": ("platformatic.mjs", "@platformatic/kafka@2.12.1"),
}
"""Each driver's source, and its library with a release, in the notation of the toolchain."""

NODE: Final = "node@24.9.0"
"""@platformatic/kafka needs a newer Node.js than many machines have."""


def lacks(name: str) -> str:
    """Return ``go`` or ``npm`` if a driver needs this tool and the machine lacks it; else ""."""
    tool = "go" if LIBRARIES[name.partition("@")[0]][0].endswith(".go") else "npm"
    return "" if _find(tool) else tool


def build(name: str, folder: Path) -> Path:
    """Build a driver; return its program, which needs the other files in its folder.

    Args:
        name: a name in ``LIBRARIES``, or ``NAME@RELEASE`` for another release of the library.
        folder: the folder for the program.

    Raises:
        CalledProcessError: the library cannot be downloaded, or the driver cannot be built.
    """
    driver, _, release = name.partition("@")
    source, library = LIBRARIES[driver]
    if release:
        library = f"{library.rpartition('@')[0]}@{release}"
    program, home = folder.absolute() / name, folder.absolute() / f"{name}-files"
    home.mkdir(parents=True, exist_ok=True)
    if source.endswith(".go"):
        shutil.copy(SOURCES / source, home / "main.go")
        (home / "go.mod").write_text("module driver\n", encoding="utf-8")
        _call(home, "go", "get", library)
        _call(home, "go", "mod", "tidy")
        _call(home, "go", "build", "-o", str(program), ".")
    else:
        shutil.copy(SOURCES / source, home)
        _call(home, "npm", "install", "--no-audit", "--no-fund", "--prefix", ".", library, NODE)
        node = home / "node_modules" / ".bin" / "node"
        program.write_text(f"#!/bin/sh\nexec '{node}' '{home / source}'\n", encoding="utf-8")
        program.chmod(0o755)
    return program


def _find(tool: str) -> str | None:
    """Return the path of a tool in this environment (``make lint`` installs Go) or machine."""
    here = str(Path(sys.executable).parent)
    return shutil.which(tool, path=here) or shutil.which(tool)


def _call(home: Path, tool: str, *words: str) -> None:
    path = _find(tool) or tool
    subprocess.run((path, *words), cwd=home, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Build every driver that this machine can build."""
    for name in sys.argv[2:] or LIBRARIES:
        if tool := lacks(name):
            sys.stderr.write(f"{name} is not built: there is no {tool} on this machine\n")
        else:
            sys.stdout.write(f"{build(name, Path(sys.argv[1]))}\n")


if __name__ == "__main__":
    main()
