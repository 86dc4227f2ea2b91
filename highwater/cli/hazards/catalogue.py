"""The commands ``highwater hazards``, which list known ways in which Kafka loses records."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer import Argument, Option

from highwater import console
from highwater.checkers.hazards.catalogue import HAZARDS, find_hazard
from highwater.checkers.hazards.conditions import END, NEWEST, coordination_name
from highwater.checkers.hazards.evaluate import default_command, of_release, upgraded
from highwater.checkers.hazards.hazard import EVIDENCE, Hazard
from highwater.cli.options.common import JsonOption
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, Release, release
from highwater.harness.releases.cluster_facts import dotted

_MORE: Final = "A hazard's conditions, fix and commands: highwater hazards show ID."

_DEFAULTS: Final = {"--acks": "all", "--min-isr": "1"}
"""Default values of some options of ``highwater matrix``."""
_OF_MATRIX: Final = frozenset(("--kafka", "--story", "--unclean", *_DEFAULTS))
"""Options in a hazard's command that ``highwater matrix`` also has."""

app = typer.Typer(
    name="hazards",
    help="How Kafka loses records: releases, conditions, fixes, commands.",
)


@app.callback(invoke_without_command=True)
def hazards(
    context: typer.Context,
    *,
    kafka: Annotated[str | None, Option(help="Only hazards of this release.")] = None,
    to: Annotated[
        str | None,
        Option(help="With --kafka: hazards that end, begin and remain with this upgrade."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List every known way in which Kafka loses acknowledged records.

    Hazards of the newest release come first, then fixed hazards, the latest fix first.
    """
    if context.invoked_subcommand is not None:
        return
    if to is not None:
        if kafka is None:
            raise UsageError(
                "--to needs --kafka, the release before the upgrade",
                hint=f"Add --kafka to --to {to}.",
            )
        _show_upgrade(release(kafka), release(to), as_json=as_json)
        return
    entry = release(kafka) if kafka else None
    listed = [hazard for hazard in HAZARDS if entry is None or of_release(hazard, entry)]
    if as_json:
        console.print_all_json([described(hazard) for hazard in listed])
        return
    if entry is None:
        rows = [[row.id, row.title, row.affected, row.discovery] for row in listed]
        _table("Hazards", ["id", "what happens", "releases", "found by"], rows)
    else:
        _table_of_release(f"Hazards of {entry.name}, under these conditions", listed)
    console.out.print(_MORE)


def _table_of_release(title: str, listed: Sequence[Hazard]) -> None:
    """Print a release's hazards; the column ``if`` has conditions other than the release."""
    rows = [[row.id, row.title, "; ".join(row.other_conditions) or "always"] for row in listed]
    _table(title, ["id", "what happens", "if"], rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = console.table(title, columns, rows)
    table.columns[0].no_wrap = True
    console.out.print(table)


def _show_upgrade(before: Release, after: Release, *, as_json: bool) -> None:
    changes = upgraded(before, after)
    command = matrix_command(before, after, (*changes.ends, *changes.begins))
    lists = {"ends": changes.ends, "begins": changes.begins, "stays": changes.stays}
    if as_json:
        objects = {word: [described(hazard) for hazard in listed] for word, listed in lists.items()}
        console.print_json({"kafka": before.name, "to": after.name, **objects, "command": command})
        return
    for word, listed in lists.items():
        if listed:
            _table_of_release(f"{before.name} to {after.name}: {word}", listed)
        else:
            console.out.print(f"No hazard {word} from {before.name} to {after.name}.")
    for line in map(_other_coordination, (before, after)):
        if line:
            console.out.print(line)
    if before.coordination != after.coordination:
        console.out.print(
            f"{after.name} uses another kind of coordination (ZooKeeper or KRaft), which "
            "requires a migration."
        )
    if command:
        console.out.print(f"To see it on both releases: {command}")
    console.out.print(_MORE)


def _other_coordination(entry: Release) -> str:
    """Return a sentence with the name of the same release on KRaft or ZooKeeper, if any."""
    for other in CATALOGUE.values():
        if other.version == entry.version and other.coordination != entry.coordination:
            there = coordination_name(other.coordination)
            return (
                f"{entry.name} here uses {coordination_name(entry.coordination)}; the same "
                f"release on {there} is {other.name}."
            )
    return ""


def matrix_command(before: Release, after: Release, changed: Sequence[Hazard]) -> str:
    """Return the matrix command that runs the hazards' stories on both releases, or an empty text.

    A story that needs an option which ``matrix`` does not have is left out.
    """
    from highwater.nemesis.stories.registry import find_story

    commands = [default_command(hazard).split() for hazard in changed if hazard.evidence == "story"]
    playable = {
        story: words
        for words in commands
        if (story := _value(words, "--story", ""))
        and _OF_MATRIX.issuperset(word for word in words if word.startswith("--"))
        and not any(find_story(story).why_not(entry) for entry in (before, after))
    }
    if not playable:
        return ""
    command = f"highwater matrix --kafka {before.name},{after.name} --story {','.join(playable)}"
    for option in ("--acks", "--min-isr"):
        default = _DEFAULTS[option]
        values = sorted({_value(words, option, default) for words in playable.values()})
        command += f" {option} {','.join(values)}" if values != [default] else ""
    unclean = any("--unclean" in words for words in playable.values())
    return command + (" --unclean both" if unclean else "")


def _value(words: Sequence[str], option: str, default: str) -> str:
    return words[words.index(option) + 1] if option in words else default


@app.command()
def show(
    name: Annotated[str, Argument(metavar="ID", help="A hazard's id, or a Kafka issue or KIP.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Show all facts about one hazard."""
    hazard = find_hazard(name)
    if as_json:
        console.print_json(described(hazard))
        return
    console.out.print(f"{hazard.id}: {hazard.title}")
    for word, text in facts(hazard):
        console.out.print(f"{word + ':':12}{text}")


def facts(hazard: Hazard) -> list[tuple[str, str]]:
    """Return the facts about a hazard as pairs of a label and a text."""
    return [
        *([("also", ", ".join(hazard.aliases))] if hazard.aliases else []),
        ("loses", hazard.loses),
        ("found by", hazard.discovery),
        ("releases", hazard.affected),
        ("introduced", ", ".join(hazard.introduced) or "always there"),
        ("fixed in", ", ".join(hazard.fixed) or f"no release up to {dotted(NEWEST)}"),
        ("conditions", "; ".join(hazard.other_conditions) or "none"),
        ("how", hazard.schedule),
        ("fix", hazard.cure),
        ("costs", hazard.cost),
        *([("source", hazard.source)] if hazard.source else []),
        *([("pages", ", ".join(map(_page, hazard.findings)))] if hazard.findings else []),
        ("shown by", f"{default_command(hazard)} ({EVIDENCE[hazard.evidence]})"),
    ]


def _page(finding: str) -> str:
    return f"docs/findings/{finding}.md"


def described(hazard: Hazard) -> dict[str, Any]:
    """Return a hazard as an object for JSON."""
    return {
        "id": hazard.id,
        "aliases": list(hazard.aliases),
        "title": hazard.title,
        "loses": hazard.loses,
        "found_by": hazard.found_by,
        "year": hazard.year or None,
        "releases": hazard.affected,
        "introduced": list(hazard.introduced),
        "fixed": list(hazard.fixed),
        "affects_newest": hazard.end == END,
        "conditions": [part.says for part in hazard.conditions],
        "other_conditions": list(hazard.other_conditions),
        "schedule": hazard.schedule,
        "cure": hazard.cure,
        "cost": hazard.cost,
        "source": hazard.source or None,
        "findings": list(map(_page, hazard.findings)),
        "evidence": hazard.evidence,
        "command": default_command(hazard),
    }
