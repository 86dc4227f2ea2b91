"""The commands about client drivers (docs/driver.md)."""

from typing import Annotated

import typer
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import JsonOption
from highwater.harness.base.exit_codes import BROKEN, OK
from highwater.harness.releases.catalogue import MODERN, release

app = typer.Typer(
    name="driver",
    help="Drivers: programs that run a client library of any language in a separate process.",
    no_args_is_help=True,
)


@app.callback()
def driver() -> None:
    """Test drivers: programs that run a client library of any language (docs/driver.md)."""


@app.command()
def check(
    command: Annotated[list[str], Argument(metavar="-- COMMAND...", help="The driver.")],
    *,
    kafka: Annotated[str, Option("--kafka", help="Release of the brokers.")] = MODERN,
    as_json: JsonOption = False,
) -> None:
    """Test a client driver on real brokers, and show differences from docs/driver.md.

    The exit code is 1 if there is a difference.
    """
    from dataclasses import asdict

    from highwater.runtime.drivers.check import check_driver

    parts = []
    for part in check_driver(command, release(kafka).name):
        parts.append(part)
        if not as_json:
            console.out.print(f"{'right' if part.right else 'WRONG'}  {part.name}: {part.seen}")
    if as_json:
        console.print_all_json([asdict(part) for part in parts])
    raise typer.Exit(OK if all(part.right for part in parts) else BROKEN)
