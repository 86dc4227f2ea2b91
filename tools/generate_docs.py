"""Writes the pages of docs/ that say what the code has: faults, checkers, versions, the model.

``make docs`` writes them; a test fails when they are out of date.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import typer
import typer.core
import typer.main

from highwater.checkers.catalogue import all_kinds
from highwater.checkers.core.jepsen_kinds import FOREIGN
from highwater.cli.app import app
from highwater.clusters.drivers import DRIVERS
from highwater.harness.releases.catalogue import CATALOGUE, MODERN, Release, Truncation
from highwater.harness.runs.faults.steps import RENAMED_FAULTS
from highwater.nemesis.faults.registry import RESTART, RESTARTS, Fault
from highwater.nemesis.faults.registry import faults as registered_faults
from highwater.nemesis.schedules.fault_spec import CONTROLLER_TARGETS, TARGETS
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import BROKER_CONFIG
from tools.api_page import api
from tools.clients_page import clients
from tools.hazards_page import hazards
from tools.model_tables import drawings, external, model
from tools.model_tables import table as _table
from tools.results_page import results

_Command = typer.core.TyperCommand | typer.core.TyperGroup

DOCS: Final = Path(__file__).parent.parent / "docs"
_NOTE: Final = "<!-- Written by `make docs` from the code. -->\n"
_FAULTS_INTRO: Final = (
    "`highwater run --nemesis kill,pause` mixes faults at random, from `--seed`; `--story NAME`"
    " plays a schedule. To add one see [adding-a-fault.md](adding-a-fault.md).\n\n"
    "In `kill@leader=3,power-failure@all` the first fault hits the leader, and is drawn three times"
    " as often; without a target the leader, a follower or any broker of a partition is drawn. No"
    " two faults are open on one broker, and steps that would overlap are left out. Every replica"
    " must be in sync before the first fault; at the end everything is healed, and every replica"
    " must be in sync again. The first fault is injected within `--for`, which is 1.5 s at least;"
    " if none is (its target is missing, or the budget is used up), the verdict is `unknown`.\n\n"
    "`--trace-flushes` runs brokers under strace, so that `torn-files` knows what was not flushed"
    " ([findings](findings.md#small-files-that-no-one-flushed-kafka-37-and-a-power-failure))."
    " `--log-dirs 2` gives each broker several log directories, the first below `replicas/`, the"
    " others below `log-dirs/` until the run ends; `log-dir-failure` makes one of these fail. Both"
    " are for local clusters.\n\n"
    "`--to 0.11.0.3,1.1.1,2.8.2` names the releases to which `upgrade` takes the brokers, step by"
    " step: for each release first its jars, then its protocol, then its message format if it has a"
    " new one, each on one broker after the other. A story is played when all of that is done;"
    " `--protocol` and `--format` stop it on the way, or start brokers below their own level."
    " ZooKeeper stays at the version of the first release. On KRaft"
    f" (`--kafka 3.9.2 --to {MODERN}`) controllers get the jars before the brokers do, and then"
    " the cluster metadata.version and the other features of the release, without a restart;"
    " `--protocol 3.9` keeps those of 3.9."
    " Faults that elect leaders from outside the ISR need `--unclean`, because such a run promises"
    " less.\n\n"
    "Faults had other names up to 0.1, which are still read: "
    + ", ".join(f"`{old}` is `{new}`" for old, new in RENAMED_FAULTS.items())
    + ".\n\n"
    "[schedules.md](schedules.md) explains how to limit, replay, write and shrink a schedule.\n"
)
_TARGETS_NOTE: Final = "A broker's id is a target, too: `kill@2`.\n"
_CONTROLLERS_NOTE: Final = (
    "`--controllers 3` starts three KRaft controllers or ZooKeepers, with the ids 100, 101 and 102;"
    " the data of each is in `coordination/controller-100/` (`coordination/zookeeper-100/`) and so"
    " on, also after the run. Faults of the coordination have these targets then, and an id is one,"
    " too: `controller-kill@101`; without a target the leader, a follower or any is drawn. One such"
    " fault is open at a time, on as many of them as its target says. While a majority is down or"
    " cut off, nothing can be decided: leaders stay leaders, ISRs stay as they are, no topic is"
    " created. It goes on when the fault is healed, which waits until each node that was started"
    " follows or leads.\n\n"
    "After `controller-disk-loss` a voter has forgotten what it acknowledged. What only it and the"
    " leader had is lost if it then elects a leader without that: KIP-853 gives each voter's disk"
    " an id for this reason, which counts only where voters are added and removed at run time."
    " That is so if `controller-leave` or `controller-replace` is among a run's faults (from 3.9"
    " on, kraft.version 1): the metadata log has the voters then, not the settings."
    " `controller-leave` removes a running one and adds it again; `controller-replace` kills one,"
    " removes it, and adds it with a new disk, which has another id. `controller-disk-loss` keeps"
    " the id there.\n\n"
    "Under `controller-isolate` brokers still reach the controller: a leader that is cut off from"
    " the others goes on to answer them until it resigns, or hears of its successor.\n"
)
_WHERE_NOTE: Final = (
    "How many of the releases that a driver can run have a fault, and why the others have not."
    " Faults of the disk kill their broker first; healing starts it on the changed files."
    " The last column has the commands that [a cluster of your own](external.md) needs.\n"
)


def _min_isrs() -> str:
    """Return the stories by the largest min.insync.replicas that lets them be played."""
    most = {story.min_isr_most for story in STORIES.values()}
    names = {
        limit: ", ".join(f"`{s.name}`" for s in STORIES.values() if s.min_isr_most == limit)
        for limit in sorted(most)
    }
    return "; ".join(f"{limit}: {stories}" for limit, stories in names.items())


_STORIES_NOTE: Final = (
    "They need three replicas. Up to how many `min.insync.replicas` they can be played:"
    f" {_min_isrs()}. `--acks` and `--unclean` change what is promised, and in `leader-kill`,"
    " `unclean` and `power-failure` what happens. A schedule that could not be played as written"
    " makes the verdict `unknown`.\n"
)
_CHECKERS_INTRO: Final = (
    "A checker finds anomalies; `breaks` in its decorator decides whether one breaks a promise of"
    " the run's settings (`checkers/core/promises.py`). To add one see"
    " [adding-a-checker.md](adding-a-checker.md). Kinds that clients see have the names and"
    " definitions of Jepsen's Kafka workload; where ours differ on purpose, their modules in"
    " `checkers/anomalies/` say so.\n"
)
_FOREIGN: Final = (
    "\nJepsen's histories have no fence and no disk. There, lost-write is a record that was never"
    " read although a reader went further, unseen is *late* (no reader went as far) or"
    " *undecidable* (its offset is not known), and these are found too:\n"
)
_VERSIONS_INTRO: Final = (
    "`highwater versions` lists them; `--json` has the whole catalogue. Releases that run on"
    " `local` alone lack `inter.broker.listener.name`, without which a broker in a container cannot"
    " have one address for the others and one for the outside. To add a release see"
    " [adding-a-version.md](adding-a-version.md).\n"
)


def faults() -> str:
    """docs/faults.md."""
    every = registered_faults().values()
    rows = [(f"`{fault.name}`", fault.family, fault.scope, fault.summary) for fault in every]
    where = [
        (f"`{fault.name}`", *(_had(fault, name) for name in DRIVERS), _outside(fault))
        for fault in every
    ]
    targets = [(f"`{name}`", says) for name, says in TARGETS.items()]
    voters = [(f"`{name}`", says) for name, says in CONTROLLER_TARGETS.items()]
    tales = [(f"`{story.name}`", story.summary, story.outcome) for story in STORIES.values()]
    return "\n".join(
        [
            "# Faults and stories\n",
            _NOTE,
            _FAULTS_INTRO,
            _table(("fault", "family", "scope", "what it does"), rows),
            "\n## Where they are available\n",
            _WHERE_NOTE,
            _table(("fault", *DRIVERS, "external: commands of the inventory"), where),
            "\n## Targets\n",
            _TARGETS_NOTE,
            _table(("target", "whom it means when its moment has come"), targets),
            "\n## Targets of the coordination\n",
            _CONTROLLERS_NOTE,
            _table(("target", "which controllers or ZooKeepers it means then"), voters),
            "\n## Stories\n",
            _table(("story", "what happens", "what it comes to"), tales),
            "\n" + _STORIES_NOTE,
            _table(("broker setting of every story", "value"), BROKER_CONFIG.items()),
        ]
    )


def _outside(fault: Fault) -> str:
    """Return what a fault needs on an external cluster."""
    if fault.commands is None:
        return "none would do"
    requests = [fault.why_not(release, "external") for release in CATALOGUE.values()]
    limits = "; ".join(dict.fromkeys(filter(None, requests)))
    words = ", ".join(f"`{verb}`" for verb in sorted(fault.commands)) or "none is needed"
    if RESTART in fault.commands:
        words += ", or " + " and ".join(f"`{verb}`" for verb in sorted(RESTARTS))
    return f"{words} (not on ZooKeeper: {limits})" if limits else words


def _had(fault: Fault, driver: str) -> str:
    """On how many releases a fault can be had by a driver, and why not on the others."""
    able = [release for release in CATALOGUE.values() if driver in release.drivers]
    reasons = [fault.why_not(release, driver) for release in able]
    refused = list(dict.fromkeys(filter(None, reasons)))
    count = reasons.count("")
    if not refused:
        return f"all {count}"
    return f"{count or 'none'} of {len(able)}: {'; '.join(refused)}"


def checkers() -> str:
    """docs/checkers.md."""
    rows = [
        (f"`{kind.name}`", kind.guarantee, kind.severity, kind.promise)
        for kind in all_kinds().values()
    ]
    others = [(f"`{kind.name}`", kind.severity, kind.promise) for kind in FOREIGN]
    heads = ("severity", "the promise that it breaks")
    return "\n".join(
        [
            "# Checkers\n",
            _NOTE,
            _CHECKERS_INTRO,
            _table(("anomaly", "what holds without it", *heads), rows),
            _FOREIGN,
            _table(("anomaly", *heads), others),
        ]
    )


def versions() -> str:
    """docs/versions.md."""
    rows = [tuple(release.row().values()) for release in CATALOGUE.values()]
    heads = tuple(next(iter(CATALOGUE.values())).row())
    rules = [(f"`{rule}`", rule.explanation) for rule in Truncation]
    notes = [
        (
            release.name,
            release.note,
            _settings({**release.client, **release.config}),
            _wire(release),
        )
        for release in CATALOGUE.values()
    ]
    return "\n".join(
        [
            "# Kafka releases\n",
            _NOTE,
            _VERSIONS_INTRO,
            _table(heads, rows),
            "\n## How a new follower cuts its log\n",
            _table(("rule", "what it does"), rules),
            "\n## What else to know\n",
            _table(("kafka", "note", "settings of its own", "requests of the probe"), notes),
        ]
    )


def commands() -> str:
    """docs/commands.md."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    parts = ["# The command `highwater`\n", _NOTE]
    parts.append(
        "Exit codes: 0 as promised, 1 a promise was broken, 2 wrong usage, 3 unknown, 4 the harness"
        " itself failed, 130 interrupted, 141 the reader of the output has ended. Only a verdict"
        " gives exit code 1.\n"
    )
    for name, command in _commands(group):
        context = typer.Context(command, info_name=f"highwater {name}", terminal_width=100)
        parts += [f"## {name}\n", f"```\n{command.get_help(context)}\n```\n"]
    return "\n".join(parts)


def _commands(group: typer.core.TyperGroup) -> Iterator[tuple[str, _Command]]:
    """Every command by the words that call it; of a group of commands each."""
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            if command.invoke_without_command:
                yield name, command
            yield from ((f"{name} {inner}", command_) for inner, command_ in _commands(command))
        else:
            assert isinstance(command, typer.core.TyperCommand)
            yield name, command


PAGES: Final[dict[str, Callable[[], str]]] = {
    "faults.md": faults,
    "checkers.md": checkers,
    "versions.md": versions,
    "commands.md": commands,
    "model.md": model,
    "hazards.md": hazards,
    "clients.md": clients,
    "results.md": results,
    "external.md": external,
    "api.md": api,
    **drawings(),
}


def _wire(release: Release) -> str:
    """Versions of the requests that tell of a replica."""
    wire = release.wire
    return f"Fetch v{wire.fetch} as {wire.fetch_as}, ListOffsets v{wire.list_offsets}"


def _settings(config: Mapping[str, str]) -> str:
    return "<br>".join(f"`{name}={value}`" for name, value in config.items())


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {', '.join(PAGES)}\n")


if __name__ == "__main__":
    main()
