"""The command ``highwater model rules``: print the model's rules for each Kafka release."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from typer import Option

from highwater import console
from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, Rules, rules_of
from highwater.checkers.model.quorum.quorum_rules import QUORUM_RELEASES, quorum_rules_of
from highwater.checkers.model.transactions.transaction_rules import (
    TRANSACTION_RELEASES,
    transaction_rules_of,
)
from highwater.harness.base.errors import UsageError
from highwater.harness.base.wording import count
from highwater.harness.runs import parse_values

ORDER: Final = tuple(RELEASES)
"""Every release in the model: releases with ZooKeeper, then releases with KRaft."""


def rules(
    *,
    kafka: Annotated[str, Option(help="Releases, separated by commas.")] = "all",
    everything: Annotated[
        bool, Option("--all", help="With releases: also list their common rules.")
    ] = False,
    transactions: Annotated[
        bool,
        Option("--transactions", help="List the rules of transactions instead."),
    ] = False,
    quorum: Annotated[
        bool, Option("--quorum", help="List the rules of KRaft's controllers instead.")
    ] = False,
    client: Annotated[
        str,
        Option(
            help="With --transactions, the client: librdkafka, java, or java-v1 (without KIP-890)."
        ),
    ] = "librdkafka",
    as_json: Annotated[
        bool, Option("--json", help="Print all rules as JSON, including shared rules.")
    ] = False,
) -> None:
    """List the rules in which releases differ, and the releases that have each rule."""
    other = model_beside(transactions=transactions, quorum=quorum)
    if other is not None:
        named = None if kafka == "all" else parse_values.names(kafka)
        listed = quorum_table(named) if quorum else transaction_table(client, named)
        title = "Rules of the quorum" if quorum else f"Rules of transactions with {client}"
        _show_other(title, listed, as_json=as_json)
        return
    releases = ORDER if kafka == "all" else parse_values.names(kafka)
    rules = {name: rules_of(name) for name in releases}
    if as_json:
        console.print_json(described(rules))
        return
    has = {
        switch: [name for name in releases if getattr(rules[name], switch)] for switch in SWITCHES
    }
    whole = everything or kafka == "all" or len(rules) == 1
    switches = SWITCHES if whole else differing(rules)
    if kafka == "all":
        heads = ["rule", "what it is", "releases that have it"]
        rows = [[switch, says(switch), ranges(has[switch])] for switch in switches]
    else:
        heads = ["rule", *releases, "what it is", "source"]
        rows = [
            [
                switch,
                *("on" if name in has[switch] else "-" for name in releases),
                says(switch),
                source(switch),
            ]
            for switch in switches
        ]
    if rows:
        table = console.table("Rules of the model", heads, rows)
        table.columns[0].no_wrap = True
        console.out.print(table)
    if same := len(SWITCHES) - len(rows):
        rest = count(same, "other rule") if rows else f"all {len(SWITCHES)} rules"
        console.out.print(f"The releases have {rest} in common: --all also lists these.")


def model_beside(*, transactions: bool, quorum: bool) -> str | None:
    """Return the name of the chosen model; None for that of replication.

    Raises:
        UsageError: both other models are chosen.
    """
    if transactions and quorum:
        raise UsageError("--transactions and --quorum are two models", hint="Choose one of them.")
    return "transactions" if transactions else "quorum" if quorum else None


def transaction_table(
    client: str, releases: Sequence[str] | None = None
) -> list[tuple[str, str, str, str]]:
    """Return the ``_rule_table`` of transactions with a client; by default of all releases."""
    names = TRANSACTION_RELEASES if releases is None else releases
    return _rule_table({name: transaction_rules_of(name, client) for name in names})


def quorum_table(releases: Sequence[str] | None = None) -> list[tuple[str, str, str, str]]:
    """Return the ``_rule_table`` of the quorum; by default of all releases."""
    names = QUORUM_RELEASES if releases is None else releases
    return _rule_table({name: quorum_rules_of(name) for name in names})


def _rule_table(rules: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return a row per rule: name, meaning, source, and releases with the rule."""
    return [
        (
            switch.name,
            str(switch.metadata["says"]),
            str(switch.metadata["source"]),
            ranges([name for name in rules if getattr(rules[name], switch.name)], tuple(rules)),
        )
        for switch in fields(next(iter(rules.values())))
    ]


def _show_other(title: str, listed: Sequence[tuple[str, ...]], *, as_json: bool) -> None:
    if as_json:
        heads = ("rule", "says", "source", "releases")
        console.print_json([dict(zip(heads, row, strict=True)) for row in listed])
        return
    columns = ["rule", "what it is", "source", "releases that have it"]
    table = console.table(title, columns, [list(row) for row in listed])
    table.columns[0].no_wrap = True
    console.out.print(table)


def differing(rules: Mapping[str, Rules]) -> tuple[str, ...]:
    """Return the rules (switches) that are on in some releases and off in others."""
    return tuple(
        switch for switch in SWITCHES if len({getattr(rule, switch) for rule in rules.values()}) > 1
    )


def described(rules: dict[str, Rules]) -> list[dict[str, Any]]:
    """Return every rule (switch): its name, meaning and source, and whether each release has it."""
    return [
        {
            "rule": switch,
            "says": says(switch),
            "source": source(switch),
            "releases": {name: getattr(rule, switch) for name, rule in rules.items()},
        }
        for switch in SWITCHES
    ]


def says(switch: str) -> str:
    """Return the description of a switch: the behaviour of releases in which it is on."""
    return str(_FIELDS[switch].metadata["says"])


def source(switch: str) -> str:
    """Return the KIP, issue or class that documents a switch."""
    return str(_FIELDS[switch].metadata["source"])


def alike(releases: Sequence[str] = ORDER) -> list[tuple[str, ...]]:
    """Group the releases that have the same rules."""
    groups: dict[Rules, list[str]] = {}
    for name in releases:
        groups.setdefault(rules_of(name), []).append(name)
    return [tuple(names) for names in groups.values()]


def ranges(names: Collection[str], order: Sequence[str] = ORDER) -> str:
    """Format releases as ranges of neighbours in ``order``: ``0.9.0.1 to 2.0.0, 2.1.1``."""
    runs: list[list[str]] = []
    last = -2
    for place, name in enumerate(order):
        if name not in names:
            continue
        if place == last + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
        last = place
    words = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return ", ".join(words) or "none"


_FIELDS: Final = {field.name: field for field in fields(Rules)}
