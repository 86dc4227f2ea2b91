"""Options and arguments that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

from harness import options

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of runs.", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--spark-master", help="Spark master; without it this machine.", callback=options.master
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--driver-memory", help="Heap of Spark's driver: 512m, 2g.", callback=options.memory
    ),
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run directories or names, or those of one matrix."),
]
DEFAULT_STORE = Path("store")
