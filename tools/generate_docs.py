"""Write the pages of docs/ about the code: faults, checkers, versions, the model.

``make docs`` runs this tool. A test fails when the pages are out of date.
"""

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import chain, groupby
from pathlib import Path
from typing import Final

import typer
import typer.core
import typer.main

import highwater
from highwater.checkers.catalogue import all_kinds
from highwater.checkers.core.jepsen_kinds import FOREIGN
from highwater.checkers.programs.mistakes import MISTAKES
from highwater.cli.app import app
from highwater.clusters.drivers import DRIVERS
from highwater.harness.releases.catalogue import CATALOGUE, MODERN, Release
from highwater.nemesis.faults.registry import RESTART, RESTARTS, Fault
from highwater.nemesis.faults.registry import faults as registered_faults
from highwater.nemesis.schedules.fault_spec import CONTROLLER_TARGETS, TARGETS
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import BROKER_CONFIG
from highwater.reports.markdown import table
from tools.clients_page import clients
from tools.hazards_page import hazards
from tools.model_tables import drawings, explanations, external, model, model_results, model_rules
from tools.programs_page import programs
from tools.results_page import results

_Command = typer.core.TyperCommand | typer.core.TyperGroup

DOCS: Final = Path(__file__).parent.parent / "docs"
_NAMES: Final = re.compile(r"(?:(?:- `.*\n)+\n)?((?:::: highwater\.\w+\n)+)")
_NOTE: Final = "<!-- Written by `make docs` from the code. -->\n"
_FAULTS_INTRO: Final = (
    "`highwater run --nemesis kill,pause` injects random faults, which `--seed` decides."
    " `--story NAME` runs a fixed schedule. You can also [write a schedule](schedules.md), or"
    " [add a fault](adding-a-fault.md).\n\n"
    "- In `kill@leader=3,power-failure@all` the fault `kill` targets the leader, and is selected"
    " three times as often as the other. Without `@` a random broker of a partition is the target."
    " A fault is skipped if its target already has a fault.\n"
    "- Every replica must be in sync before the first fault, and at the end of the run. If no fault"
    " was injected, the verdict is `unknown`.\n"
    "- The fault [`torn-files`](findings/torn-files.md) needs `--trace-flushes`, and"
    " `log-dir-failure` needs `--log-dirs 2`.\n"
    "- `--to 0.11.0.3,2.8.2` names releases for the fault `upgrade`. For each release, every broker"
    " is restarted with the new jars, then with the new protocol, then with the new message format."
    " A story runs after the upgrade. ZooKeeper is not upgraded.\n"
    f"- On KRaft (`--kafka 3.9.2 --to {MODERN}`) first the controllers get the new jars, then the"
    " brokers. Then metadata.version and other features are raised, without a restart;"
    " `--protocol 3.9` keeps those of 3.9.\n"
    "- Faults that elect leaders from outside the ISR need `--unclean`.\n"
    "\nFaults of storage kill their broker first. Healing starts stopped brokers with their files,"
    " and resumes frozen brokers. In italics are the commands that a fault needs on [your own"
    " cluster](external.md); *none* means that requests are enough. A fault without italics needs a"
    " cluster that Highwater starts.\n"
)
EFFECTS: Final = DOCS / "fault-effects.json"
_EFFECTS_NOTE: Final = "Tests (`tests/kafka`) have seen effect and healing on these brokers:\n"
_TARGETS_NOTE: Final = "A broker's id may also be a target: `kill@2`.\n"
_CONTROLLERS_NOTE: Final = (
    "`--controllers 3` starts three KRaft controllers or ZooKeepers, with the ids 100, 101 and 102"
    ". Targets of their faults are these ids (`controller-kill@101`) and"
    f" {', '.join(f'`{name}`' for name in CONTROLLER_TARGETS)}. If no node leads, `leader` is any"
    " node. Only one such fault is active at a time.\n\n"
    "After `controller-disk-loss` a KRaft controller has its old id, and"
    " [votes](findings/static-quorum.md). Only runs with `controller-leave` or `controller-replace`"
    " have a dynamic quorum.\n\n"
    "Under `controller-isolate` an isolated leader still answers brokers until it resigns, or"
    " learns of its successor.\n"
)
_TWIN: Final = "controller-"
"""Name prefix of a fault of controllers that also exists as a fault of brokers."""
_WHERE_NOTE: Final = "All faults exist for every driver and release, except these:\n"


def _min_isrs() -> str:
    """Return the stories grouped by ``min_isr_most``: ``1 in `loss`, …; 3 in all others``."""
    most = {story.min_isr_most for story in STORIES.values()}
    names = {
        limit: ", ".join(f"`{s.name}`" for s in STORIES.values() if s.min_isr_most == limit)
        for limit in sorted(most)
    }
    highest = max(names)
    lower = (f"{limit} in {stories}" for limit, stories in names.items() if limit < highest)
    return f"{'; '.join(lower)}; {highest} in all others"


_MISTAKES: Final = (
    "\n## Mistakes\n\n"
    "With the fault in its row, `--nemesis` reveals a mistake fastest. Mistakes without a fault in"
    " their row need none.\n\n"
)
_STORIES_NOTE: Final = (
    "Stories need three replicas, and limit `min.insync.replicas`: at most"
    f" {_min_isrs()}. `--acks` and `--unclean` change the outcome only of `leader-kill`, `unclean`"
    " and `power-failure`. If a story could not follow its schedule, the verdict is `unknown`.\n"
)
_CHECKERS_INTRO: Final = (
    "This page lists all anomalies, grouped by the promise that they break. Each sentence states"
    " the guarantee that holds if a run does not have the anomaly. Anomalies in clients' histories"
    " have the names of Jepsen's Kafka workload. You can [add a checker](adding-a-checker.md).\n"
)
_PLAIN: Final = re.compile(r"^(?!none)([\w ]+): [a-z][a-z' -]+?(?: \((.+)\))?$")
"""A pattern for a promise in plain words, which an anomaly kind's guarantee repeats, with its
source."""
_OWN_PROMISE: Final = "each by a promise of its own"
_FOREIGN: Final = (
    "\nIn Jepsen's histories, `lost-write` is a record that was never read although a reader read a"
    " later one. `unseen` is *late* if no reader read as far, or *undecidable* if the record's"
    " offset is not known. These kinds are also found there:\n"
)
_COMMON: Final = 4
"""An option of at least this many commands is described only once."""
_TYPES: Final = re.compile(r" <(?:int|float|str|path|list\[\w+\])(?: range)?>")
_COMMANDS_INTRO: Final = (
    "The exit code is 0 if Kafka kept its promises, 1 if it broke one, 2 for wrong usage, 3 if the"
    " verdict is unknown, 4 if Highwater failed, 130 after Ctrl-C, and 141 if the reader of the"
    " output has ended.\n\n"
    "Each option is described once, with its default and range in brackets. Many commands have"
    " these:\n"
)
_VERSIONS_INTRO: Final = (
    "These are the releases that Highwater can test, and their differences. `highwater"
    " versions --json` prints all fields. Releases marked `local` do not run in containers."
    " You can [add a release](adding-a-version.md).\n"
)


def apps() -> str:
    """Return docs/apps.md, whose last section comes from the code."""
    text = (DOCS / "apps.md").read_text("utf-8").partition("\n## Mistakes\n")[0]
    rows = {of.name: [of.fault and f"`{of.fault}`", of.fix] for of in MISTAKES}
    mistakes = table(("mistake", "fault", "fix"), [[name, *row] for name, row in rows.items()])
    return f"{text}{_MISTAKES}{mistakes}"


def faults() -> str:
    """Return the text of docs/faults.md."""
    every = registered_faults().values()
    refused: dict[str, list[str]] = {}
    for fault in every:
        if reasons := _refused(fault):
            refused.setdefault(reasons, []).append(f"`{fault.name}`")
    where = [f"- {', '.join(names)}: {reasons}." for reasons, names in refused.items()]
    targets = [(f"`{name}`", says) for name, says in TARGETS.items()]
    tales = [(f"`{story.name}`", story.summary, story.outcome) for story in STORIES.values()]
    return "\n".join(
        [
            "# Faults and stories\n",
            _NOTE,
            _FAULTS_INTRO,
            *_families(every),
            "\n## Where they are not available\n",
            _WHERE_NOTE,
            *where,
            "\n## Seen from outside\n",
            _EFFECTS_NOTE,
            _effects(every),
            "\n## Targets\n",
            _TARGETS_NOTE,
            table(("target", "its meaning at the time of the fault"), targets),
            "\n## Targets of the coordination\n",
            _CONTROLLERS_NOTE,
            "\n## Stories\n",
            table(("story", "what happens", "outcome"), tales),
            "\n" + _STORIES_NOTE,
            table(("broker setting of every story", "value"), BROKER_CONFIG.items()),
        ]
    )


def _effects(every: Iterable[Fault]) -> str:
    """Return a table of the drivers on which a test has seen each fault's effect, by release."""
    effects: dict[str, dict[str, list[str]]] = json.loads(EFFECTS.read_text("utf-8"))
    releases = [name for name in CATALOGUE if any(name in row for row in effects.values())]
    alike: dict[tuple[str, ...], list[str]] = {}
    for fault in every:
        if row := effects.get(fault.name):
            cells = tuple(", ".join(row.get(release, ["-"])) for release in releases)
            alike.setdefault(cells, []).append(f"`{fault.name}`")
    rows = [(", ".join(names), *cells) for cells, names in alike.items()]
    return table(("fault", *releases), rows)


def _families(every: Iterable[Fault]) -> Iterator[str]:
    """Yield a list of each family's faults, with the commands that an external cluster needs."""
    for family, grouped in groupby(every, key=lambda fault: fault.family):
        faults_ = [*grouped]
        scopes = {fault.scope for fault in faults_}
        usual = scopes.pop() if len(scopes) == 1 else ""
        yield f"\n**{family}**{f' ({usual})' if usual not in {'', 'broker'} else ''}\n"
        names = {fault.name for fault in faults_}
        for fault in faults_:
            if fault.name.removeprefix(_TWIN) in names - {fault.name}:
                continue
            twin = f", `{_TWIN}{fault.name}`" if f"{_TWIN}{fault.name}" in names else ""
            scope = "" if fault.scope in {"broker", usual} else f" ({fault.scope})"
            needed = "" if fault.commands is None else f" *{_outside(fault.commands)}*"
            yield f"- `{fault.name}`{twin}{scope}: {fault.summary}{needed}"


def _outside(commands: frozenset[str]) -> str:
    """Return the commands of the inventory that a fault needs on an external cluster."""
    words = ", ".join(f"`{verb}`" for verb in sorted(commands)) or "none"
    if RESTART in commands:
        words += ", or " + " and ".join(f"`{verb}`" for verb in sorted(RESTARTS))
    return words


def _refused(fault: Fault) -> str:
    """Return why some releases or drivers lack a fault; empty if all have the fault."""
    drivers: dict[str, list[str]] = {}
    for driver in DRIVERS:
        able = [release for release in CATALOGUE.values() if driver in release.drivers]
        for reason in dict.fromkeys(fault.why_not(release, driver) for release in able):
            drivers.setdefault(reason, []).append(driver)
    return "; ".join(
        reason if names == [*DRIVERS] else f"{reason} ({', '.join(names)})"
        for reason, names in drivers.items()
        if reason
    )


def checkers() -> str:
    """Return the text of docs/checkers.md."""
    kinds = all_kinds().values()
    sharing = Counter(kind.promise for kind in kinds)
    promises: dict[str, list[str]] = {}
    for kind in kinds:
        shared = sharing[kind.promise] > 1
        rated = kind.severity if shared else f"{kind.severity}; {_short_promise(kind.promise)}"
        line = f"- `{kind.name}` ({rated}): {kind.guarantee}"
        promises.setdefault(kind.promise if shared else _OWN_PROMISE, []).append(line)
    alone = promises.pop(_OWN_PROMISE)
    promises[_OWN_PROMISE] = alone
    lists = [f"**{promise}**\n\n" + "\n".join(lines) for promise, lines in promises.items()]
    others = [f"- `{kind.name}` ({kind.severity}): {kind.promise}" for kind in FOREIGN]
    intro = ["# Checkers\n", _NOTE, _CHECKERS_INTRO]
    return "\n".join([*intro, "\n\n".join(lists), _FOREIGN, *others]) + "\n"


def _short_promise(promise: str) -> str:
    """Return a promise's name and source, if a kind's guarantee has its text; else all of it."""
    plain = _PLAIN.match(promise)
    return ", ".join(filter(None, plain.groups())) if plain else promise


def versions() -> str:
    """Return the text of docs/versions.md."""
    parts = []
    for alike, releases in groupby(CATALOGUE.values(), key=_alike):
        parts.append(f"\n**{alike}**\n")
        parts += [f"- **{release.name}**: {_note(release)}" for release in releases]
    return "\n".join(["# Kafka releases\n", _NOTE, _VERSIONS_INTRO, *parts, ""])


def _alike(release: Release) -> str:
    """Return a release's properties as text; neighbouring releases with equal texts share a row."""
    row = release.row()
    zstd = " with zstd" if row["zstd"] == "yes" else ""
    return (
        f"{row['metadata']}; truncation rule {row['follower cuts by']};"
        f" record format {row['records']}{zstd}{'' if ' ' in row['drivers'] else '; local'}"
    )


def _note(release: Release) -> str:
    settings = {**release.client, **release.config}
    needed = ", ".join(f"`{name}={value}`" for name, value in settings.items())
    return f"{release.note} Needs {needed}." if needed else release.note


def commands() -> str:
    """Return the text of docs/commands.md."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    every = [(name, command, _options(command)) for name, command in _commands(group)]
    counts = Counter(chain.from_iterable(options for _, _, options in every))
    common = {key for key, count in counts.items() if count >= _COMMON}
    shared = {key: o for _, _, options in every for key, o in options.items() if key in common}
    parts = ["# The command `highwater`\n", _NOTE, _COMMANDS_INTRO]
    many = copy(every[0][1])
    many.help, many.params = "", [*shared.values()]
    parts.append(f"```\n{_help('COMMAND', many)}\n```\n")
    places = dict.fromkeys(common, "")
    for name, command, options in every:
        single = copy(command)
        single.params = [param for param in command.params if param not in options.values()] + [
            option for key, option in options.items() if key not in places
        ]
        above: dict[str, list[str]] = {}
        for key, option in options.items():
            if places.get(key):
                above.setdefault(places[key], []).append(f"`{option.opts[0]}`")
        also = "".join(
            f"\nOptions as in `{place}`: {', '.join(options_)}.\n"
            for place, options_ in above.items()
        )
        parts.append(f"## {name}\n\n```\n{_help(name, single)}\n```\n{also}")
        places = {**dict.fromkeys(options, name), **places}
    return "\n".join(parts)


def _help(name: str, command: _Command) -> str:
    """Return the help of a command, without its usage, its subcommands and ``--help`` itself."""
    command.add_help_option = False
    context = typer.Context(command, info_name=f"highwater {name}", terminal_width=100)
    text = command.get_help(context).partition("\n\n")[2].partition("\n\nCommands:")[0]
    text = _TYPES.sub(lambda type_: " " * len(type_[0]), text)
    return re.sub(r"\[default:\s+", "[", text)


def _options(command: _Command) -> dict[str, typer.core.TyperOption]:
    """Return the options of a command. Equal options of two commands have equal keys."""
    options = [option for option in command.params if isinstance(option, typer.core.TyperOption)]
    return {f"{option.opts} {option.help} {option.default}": option for option in options}


def _commands(group: typer.core.TyperGroup) -> Iterator[tuple[str, _Command]]:
    """Return every command by its name, including subcommands."""
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            if command.invoke_without_command:
                yield name, command
            yield from ((f"{name} {inner}", command_) for inner, command_ in _commands(command))
        else:
            assert isinstance(command, typer.core.TyperCommand)
            yield name, command


def api() -> str:
    """Return docs/api.md; its lists of public names are generated for readers without the site."""
    text = (DOCS / "api.md").read_text("utf-8")
    return _NAMES.sub(lambda match: f"{_api_lines(match[1])}\n{match[1]}", text)


def _api_lines(block: str) -> str:
    names = re.findall(r"highwater\.(\w+)", block)
    return "".join(f"- `{name}`: {_first(name)}\n" for name in names)


def _first(name: str) -> str:
    """Return the first sentence of a name's docstring."""
    paragraph = (inspect.getdoc(getattr(highwater, name)) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s", " ".join(paragraph.split()), maxsplit=1)[0]
    return sentence.replace("``", "`")


PAGES: Final[dict[str, Callable[[], str]]] = {
    "apps.md": apps,
    "faults.md": faults,
    "checkers.md": checkers,
    "versions.md": versions,
    "commands.md": commands,
    "model.md": model,
    "model-rules.md": model_rules,
    "model-results.md": model_results,
    "explanations.md": explanations,
    "hazards.md": hazards,
    "clients.md": clients,
    "results.md": results,
    "programs.md": programs,
    "external.md": external,
    "api.md": api,
    **drawings(),
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {', '.join(PAGES)}\n")


if __name__ == "__main__":
    main()
