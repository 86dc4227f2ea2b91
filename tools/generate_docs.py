"""Write the pages of docs/ about the code: faults, checkers, versions, the model.

``make docs`` runs this tool. A test fails when the pages are out of date.
"""

import inspect
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
    "Every fault and story. `highwater run --nemesis kill,pause` mixes faults at random, by "
    "`--seed`; `--story NAME` runs a story (a scripted scenario). "
    "[schedules.md](schedules.md) shows how to limit, replay, write and shrink a schedule, "
    "[adding-a-fault.md](adding-a-fault.md) how to add a fault.\n"
    "\n"
    "- In `kill@leader=3,power-failure@all` the first fault hits the leader, and is three "
    "times as frequent. Without a target the leader, a follower or any broker is drawn. A "
    "step is skipped if its broker has a fault.\n"
    "- Every replica must be in sync before the first fault, and at the end. If no fault was "
    "injected, the verdict is `unknown`.\n"
    "- `--trace-flushes` runs brokers under strace, so that `torn-files` knows the unflushed "
    "files ([why](findings/torn-files.md)). `--log-dirs 2` gives each broker several log "
    "directories, for `log-dir-failure`: the first below `replicas/`, the others below "
    "`log-dirs/`. Both need local clusters.\n"
    "- `--to 0.11.0.3,2.8.2` names releases for `upgrade`. For each release brokers first get "
    "the jars, then the protocol, then the message format. A story runs after the upgrade. "
    "`--protocol` and `--format` stop an upgrade earlier, or start brokers at an older level. "
    "ZooKeeper keeps the first release.\n"
    f"- On KRaft (`--kafka 3.9.2 --to {MODERN}`) first controllers get the jars, then brokers; "
    "then the cluster gets the metadata.version and other features, without a restart. "
    "`--protocol 3.9` keeps those of 3.9.\n"
    "- Faults that elect leaders from outside the ISR need `--unclean`.\n"
    "\n"
    "Faults of storage first kill their broker. Healing starts killed or stopped nodes on "
    "their files, and resumes paused ones. In italics are the commands that a fault needs on "
    "[your own cluster](external.md) (*none*: requests are enough). Faults without such a "
    "note need a cluster that Highwater starts. Assignments and settings there need KRaft.\n"
)
_TARGETS_NOTE: Final = "A broker's id is also a target: `kill@2`.\n"
_CONTROLLERS_NOTE: Final = (
    "`--controllers 3` starts three KRaft controllers or ZooKeepers, with the ids 100, 101 and 102"
    " (data: `coordination/controller-100/` or `coordination/zookeeper-100/`)."
    " Targets of their faults are these ids (`controller-kill@101`), and"
    f" {', '.join(f'`{name}`' for name in CONTROLLER_TARGETS)}; `leader` is any node if none leads."
    " One such fault is open at a time; healing waits for each node.\n\n"
    "After `controller-disk-loss` a voter keeps its id, but has lost what it acknowledged. Entries"
    " that only this voter and the leader had may be lost. The disk ids of KIP-853 prevent this"
    " only in runs with `controller-leave` or `controller-replace` (since 3.9, kraft.version 1)."
    "\n\n"
    "An isolated leader (`controller-isolate`) still responds to brokers until it resigns, or"
    " learns of its successor.\n"
)
_TWIN: Final = "controller-"
"""The name prefix of a fault of the coordination that also exists for brokers."""
_WHERE_NOTE: Final = "Every fault is available on every driver and release, except these.\n"


def _min_isrs() -> str:
    """Return the stories by the greatest min.insync.replicas that they allow."""
    most = {story.min_isr_most for story in STORIES.values()}
    names = {
        limit: ", ".join(f"`{s.name}`" for s in STORIES.values() if s.min_isr_most == limit)
        for limit in sorted(most)
    }
    highest = max(names)
    lower = (f"{limit}: {stories}" for limit, stories in names.items() if limit < highest)
    return f"{'; '.join(lower)}; {highest}: the others"


_MISTAKES: Final = (
    "\n## Mistakes\n\n"
    "The fault in a row reveals its mistake fastest with `--nemesis`; other mistakes need no fault."
    "\n\n"
)
_STORIES_NOTE: Final = (
    "Stories need three replicas. The greatest possible `min.insync.replicas` is"
    f" {_min_isrs()}. `--acks` and `--unclean` change the outcome only in `leader-kill`, `unclean`"
    " and `power-failure`. If brokers do not follow the schedule, the verdict is `unknown`.\n"
)
_CHECKERS_INTRO: Final = (
    "Every anomaly that a run can have, by the guarantee that it breaks; without the anomaly, "
    "the sentence is true. [adding-a-checker.md](adding-a-checker.md) shows how to add one. "
    "Kinds that clients can see have the names of Jepsen's Kafka workload; the modules in "
    "`checkers/anomalies/` describe differences.\n"
)
_PLAIN: Final = re.compile(r"^(?!none)([\w ]+): [a-z][a-z' -]+?(?: \((.+)\))?$")
"""A promise whose text repeats the guarantee of its only kind of anomaly."""
_OWN_PROMISE: Final = "each by a promise of its own"
_FOREIGN: Final = (
    "\n"
    "Jepsen's histories have no fence (last record) and no disks. In them lost-write is a "
    "record that no reader read, although a reader went further. Unseen is *late* (no reader "
    "went as far) or *undecidable* (its offset is unknown). These kinds are also found:\n"
)
_COMMON: Final = 4
"""The number of commands from which on an option is described only once."""
_TYPES: Final = re.compile(r" <(?:int|float|str|path|list\[\w+\])(?: range)?>")
_OF_SPARK: Final = "`--spark-master`, `--spark-remote`, `--spark-conf`, `--driver-memory`"
_COMMANDS_INTRO: Final = (
    "Every command and option. Exit codes: 0 all guarantees hold, 1 a guarantee was broken, 2 "
    "wrong usage, 3 unknown, 4 the harness failed, 130 interrupted, 141 the reader of the "
    "output has exited. An option is explained once. Brackets contain its default and its "
    "range; `--help` has the types. Options of many commands:\n"
)
_VERSIONS_INTRO: Final = (
    "Every supported release, and its differences from others. `highwater versions --json` "
    "has the complete catalogue. Releases marked `local` do not run in containers, because "
    "they lack `inter.broker.listener.name`. To add a release see "
    "[adding-a-version.md](adding-a-version.md).\n"
)


def apps() -> str:
    """Return docs/apps.md, whose last section comes from the code."""
    text = (DOCS / "apps.md").read_text("utf-8").partition("\n## Mistakes\n")[0]
    rows = {of.name: [of.fault and f"`{of.fault}`", of.evidence, of.fix] for of in MISTAKES}
    heads = ("mistake", "fault", "evidence", "fix")
    mistakes = table(heads, [[name, *row] for name, row in rows.items()])
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
    """Return the inventory commands that a fault needs on an external cluster."""
    words = ", ".join(f"`{verb}`" for verb in sorted(commands)) or "none"
    if RESTART in commands:
        words += ", or " + " and ".join(f"`{verb}`" for verb in sorted(RESTARTS))
    return words


def _refused(fault: Fault) -> str:
    """Return why releases or drivers lack a fault; empty if all have it."""
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
    """Return a promise; leave out its text if its only kind's guarantee says the same."""
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
    """Return the properties by which neighbouring releases are grouped."""
    row = release.row()
    zstd = ", zstd" if row["zstd"] == "yes" else ""
    return (
        f"{row['metadata']}, truncates by {row['follower cuts by']},"
        f" records {row['records']}{zstd}{'' if ' ' in row['drivers'] else ', local'}"
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
            if key in places:
                above.setdefault(places[key], []).append(f"`{option.opts[0]}`")
        also = "; ".join(f"{', '.join(names)}{place}" for place, names in above.items())
        also = also.replace(_OF_SPARK, "Spark's")
        also = f"\nAlso {also}.\n" if above else ""
        parts.append(f"## {name}\n\n```\n{_help(name, single)}\n```\n{also}")
        places = {**dict.fromkeys(options, f", as of `{name}`"), **places}
    return "\n".join(parts)


def _help(name: str, command: _Command) -> str:
    """Return a command's help, without its usage, its subcommands and ``--help``."""
    command.add_help_option = False
    context = typer.Context(command, info_name=f"highwater {name}", terminal_width=100)
    text = command.get_help(context).partition("\n\n")[2].partition("\n\nCommands:")[0]
    text = _TYPES.sub(lambda type_: " " * len(type_[0]), text)
    return re.sub(r"\[default:\s+", "[", text)


def _options(command: _Command) -> dict[str, typer.core.TyperOption]:
    """Return the options of a command, by a key that equal options share."""
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
    """Return docs/api.md with new lists, for readers without the generated site."""
    text = (DOCS / "api.md").read_text("utf-8")
    return _NAMES.sub(lambda match: f"{_api_lines(match[1])}\n{match[1]}", text)


def _api_lines(block: str) -> str:
    names = re.findall(r"highwater\.(\w+)", block)
    return "".join(f"- `{name}`: {_first(name)}\n" for name in names)


def _first(name: str) -> str:
    """Return the first paragraph of a name's docstring."""
    paragraph = (inspect.getdoc(getattr(highwater, name)) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")


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
