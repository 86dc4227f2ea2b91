"""Runs many commands from one process that has imported them all: ``-m tests.support.forked``.

Each command is a fork with a standard output of its own, and ends as the real one does. Starting
Python for each would take two CPU seconds, nearly all of them for imports.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn

ROOT: Final = Path(__file__).parents[2]

Output = Literal["kept", "nobody", "full", "closed"]
"""A file that is read afterwards; a pipe that nobody reads; a device without room; nowhere special,
and no folder may be written but those that permissions open."""


class Outcome(NamedTuple):
    """How a command ended, and what it said on standard error, and on output that is kept."""

    code: int
    said: str
    out: str


def outcomes(
    cases: Sequence[tuple[Sequence[str], Output]], cwd: Path | None = None
) -> list[Outcome]:
    """Return how each command ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.forked", json.dumps(cases)],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return [Outcome(*one) for one in json.loads(done.stdout)]


def main() -> None:
    """Read cases from an argument, as JSON, and print the outcome of each."""
    import highwater.api  # noqa: PLC0415 - so that no fork has to
    import highwater.campaigns.soak_run  # noqa: PLC0415
    import highwater.checkers.inspection  # noqa: PLC0415
    import highwater.checkers.model.search.kafka_model  # noqa: PLC0415
    import highwater.cli.app  # noqa: PLC0415
    import highwater.reports.formats  # noqa: PLC0415
    import highwater.reports.pages.comparison  # noqa: PLC0415
    import highwater.shrinking.shrinker  # noqa: F401, PLC0415
    import tests.support.spoiled  # noqa: F401, PLC0415

    cases = json.loads(sys.argv[1])
    json.dump([_outcome(words, output) for words, output in cases], sys.stdout)


def _outcome(words: list[str], output: Output) -> Outcome:
    with tempfile.TemporaryFile("w+") as said, _standard_output(output) as descriptor:
        if not (child := os.fork()):
            os.dup2(descriptor, 1)
            os.dup2(said.fileno(), 2)
            _become(words, output)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        out = ""
        if output == "kept":
            os.lseek(descriptor, 0, os.SEEK_SET)
            out = os.read(descriptor, 1 << 20).decode()
        return Outcome(os.waitstatus_to_exitcode(status), said.read(), out)


@contextlib.contextmanager
def _standard_output(output: Output) -> Iterator[int]:
    if output == "nobody":
        read, write = os.pipe()
        os.close(read)
    elif output == "kept":
        write = os.memfd_create("output")
    else:
        write = os.open("/dev/full" if output == "full" else os.devnull, os.O_WRONLY)
    yield write
    os.close(write)


def _become(words: list[str], output: Output) -> NoReturn:
    from highwater.__main__ import main as highwater  # noqa: PLC0415
    from tests.support.spoiled import without_privileges  # noqa: PLC0415

    sys.argv = ["highwater", *words]
    sys.stdout = out = os.fdopen(1, "w")  # an interpreter keeps a second name of it, too
    code = 1
    try:
        with without_privileges() if output == "closed" else contextlib.nullcontext():
            highwater()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as an interpreter tells of it
        traceback.print_exc()
    del out
    os._exit(code)


if __name__ == "__main__":
    main()
