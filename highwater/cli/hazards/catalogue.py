"""The commands ``highwater hazards``: every known way in which Kafka loses records."""

from typing import Annotated, Any

import typer
from typer import Argument

from highwater import console
from highwater.checkers.hazards.catalogue import HAZARDS, find_hazard
from highwater.checkers.hazards.evaluate import default_command
from highwater.checkers.hazards.hazard import EVIDENCE, Hazard
from highwater.cli.options.common import JsonOption

app = typer.Typer(
    name="hazards",
    help="How Kafka loses records: releases, conditions, cures, and commands that show it.",
)


@app.callback(invoke_without_command=True)
def hazards(context: typer.Context, *, as_json: JsonOption = False) -> None:
    """List every known way in which Kafka loses acknowledged records."""
    if context.invoked_subcommand is not None:
        return
    if as_json:
        console.print_all_json([described(hazard) for hazard in HAZARDS])
        return
    rows = [[hazard.id, hazard.title, hazard.affected] for hazard in HAZARDS]
    table = console.table("Hazards", ["id", "what happens", "releases"], rows)
    table.columns[0].no_wrap = True
    console.out.print(table)
    console.out.print("Conditions, cure and the command that shows it: highwater hazards show ID.")


@app.command()
def show(
    name: Annotated[str, Argument(metavar="ID", help="Its id, or an issue or KIP of Kafka's.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Show all that is known about one hazard."""
    hazard = find_hazard(name)
    if as_json:
        console.print_json(described(hazard))
        return
    console.out.print(f"{hazard.id}: {hazard.title}")
    for word, text in facts(hazard):
        console.out.print(f"{word + ':':12}{text}")


def facts(hazard: Hazard) -> list[tuple[str, str]]:
    """Return what is known about a hazard, as pairs for a terminal or a page."""
    return [
        *([("also", ", ".join(hazard.aliases))] if hazard.aliases else []),
        ("loses", hazard.loses),
        ("releases", hazard.affected),
        ("conditions", "; ".join(hazard.other_conditions) or "none"),
        ("how", hazard.schedule),
        ("cure", hazard.cure),
        ("costs", hazard.cost),
        ("shown by", f"{default_command(hazard)} ({EVIDENCE[hazard.evidence]})"),
    ]


def described(hazard: Hazard) -> dict[str, Any]:
    """Return a hazard as an object for JSON."""
    return {
        "id": hazard.id,
        "aliases": list(hazard.aliases),
        "title": hazard.title,
        "loses": hazard.loses,
        "releases": hazard.affected,
        "conditions": [part.says for part in hazard.conditions],
        "schedule": hazard.schedule,
        "cure": hazard.cure,
        "cost": hazard.cost,
        "evidence": hazard.evidence,
        "command": default_command(hazard),
    }
