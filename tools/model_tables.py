"""The tables of docs/model.md: rules from the code, results from docs/model-results.json."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.checkers.explain.explanations import EXPLANATIONS
from highwater.checkers.explain.observations import SOURCES
from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.rules_by_release import SWITCHES, rules_of
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import PROMISES, Counterexample
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_rules import CLIENTS
from highwater.cli.model_rules import ORDER, ranges, says, transaction_table
from highwater.cli.options.model import rare_bounds
from highwater.harness.base.wording import count
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.reports.drawings.counterexample_svg import whole
from highwater.reports.drawings.transaction_svg import whole_transactions
from highwater.reports.html import drawing_css
from highwater.reports.markdown import table

DOCS: Final = Path(__file__).parent.parent / "docs"
RESULTS: Final = DOCS / "model-results.json"

_NO_LICENCE: Final = "what the run shows"
_ALL_HOLD: Final = "all hold"
_ALSO_HOLD: Final = (
    "`model-results.json` also has searches with other bounds, in which all invariants hold"
)
_USUAL: Final = {"records": 3, "transactions": 2, "voters": 3, "epochs": 3, "decisions": 1}
"""Bounds of a search of transactions or of the quorum, if the page states no other bounds."""
_FAILURES: Final = "0 failures"
"""The failures of a search, if the page states no other number."""
_RANGES: Final = {
    "3.7.2 to 3.9.2, 4.0.1 to 4.1.2, 4.2.1 to 4.4.0": "KRaft",
    "0.9.0.1 to 3.9.2-zk, KRaft": "every release",
}
"""Ranges of releases, with their names in docs/model-results.md, which explains these."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant that does not hold; ``counterexample`` is a file in ``counterexamples/``."""

    depth: int
    counterexample: str | None = None


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """One search: its bounds, its effort, and its results.

    Attributes:
        exhausted: whether the search reached every state within the bounds.
        invariants: for each invariant its shortest counterexample, or None if the invariant holds.
    """

    kafka: str
    scope: Scope
    switched: Mapping[str, bool] = {}
    states: int
    depth: int
    seconds: float
    exhausted: bool
    invariants: Mapping[str, Broken | None]


class MeasuredReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A counterexample on real brokers, with the number of runs and of reproductions.

    Attributes:
        client: library of the producers, as in a plan, for transactions.
        day: date of the last run or of its record, as in 2026-11-25.
    """

    counterexample: str
    kafka: str
    client: str = LIBRDKAFKA
    runs: int
    reproduced: int
    day: str = ""
    note: str = ""

    @property
    def where(self) -> str:
        """The release, and the client if it is not librdkafka."""
        return self.kafka if self.client == LIBRDKAFKA else f"{self.kafka}, {self.client}"


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """A search with one changed rule: the first broken invariant, and the fewest steps to it."""

    switch: str
    kafka: str
    invariant: str | None
    depth: int | None
    states: int
    scope: str


class SearchedOther(msgspec.Struct, frozen=True, kw_only=True):
    """One search of transactions or of the quorum: its bounds, and its result.

    Attributes:
        client: the client of a search of transactions.
        broken: each invariant that can be broken, with the number of steps.
    """

    kafka: str
    client: str = ""
    bounds: Mapping[str, int]
    switched: Mapping[str, bool] = {}
    states: int
    depth: int
    seconds: float
    broken: Mapping[str, int]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All results of searches and replays."""

    scopes: tuple[Searched, ...] = ()
    replays: tuple[MeasuredReplay, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    transactions: tuple[SearchedOther, ...] = ()
    quorum: tuple[SearchedOther, ...] = ()


def model() -> str:
    """Return docs/model.md with newly generated tables."""
    blocks = {"invariants": invariants, "transaction-invariants": transaction_invariants}
    return _with_blocks("model.md", blocks)


def model_rules() -> str:
    """Return the text of docs/model-rules.md."""
    mutations = read().mutations
    blocks = {"rules": lambda: rules(mutations), "transaction-rules": transaction_rules}
    return _with_blocks("model-rules.md", blocks)


def model_results() -> str:
    """Return the text of docs/model-results.md."""
    results = read()
    blocks = {
        "searches": lambda: searches(results.scopes),
        "replays": lambda: replays(results.replays),
        "transaction-searches": lambda: other_searches(results.transactions),
        "quorum-searches": lambda: other_searches(results.quorum),
    }
    return _with_blocks("model-results.md", blocks)


def explanations() -> str:
    """Return the text of docs/explanations.md."""
    return _with_blocks("explanations.md", {"explanations": explaining})


def read() -> Results:
    """Return all results of searches and replays."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def external() -> str:
    """Return docs/external.md with a newly generated table."""
    return _with_blocks("external.md", {"observations": observations})


def _with_blocks(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with new contents of its generated blocks."""
    text = (DOCS / page).read_text("utf-8")
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        written = f"{begin}\n{block()}\n{end}"
        text, times = re.subn(pattern, lambda _, new=written: new, text, flags=re.DOTALL)  # type: ignore[misc]
        assert times == 1, f"docs/{page} has no block {name}"
    return text


def rules(measured: Sequence[Mutation]) -> str:
    """Return each rule, the releases that have it, and the invariants that break without it."""
    lines = []
    for switch in SWITCHES:
        having = _since(ranges([name for name in ORDER if getattr(rules_of(name), switch)]))
        alone = "; ".join(_needed(row) for row in measured if row.switch == switch and row.depth)
        lines.append(
            f"- `{switch}` ({having}): {_short(says(switch))}{f' *{alone}*' if alone else ''}\n"
        )
    return "".join(lines)


def _short(meaning: str) -> str:
    return meaning.replace("Without this rule", "Without it")


def _needed(mutation: Mutation) -> str:
    """Return the invariants that break without a rule."""
    kafka = mutation.kafka.partition(",")[0]
    return f"{mutation.invariant}, {mutation.depth} steps ({kafka})."


def invariants() -> str:
    """Return the invariants, guarantees to clients first."""
    rows = [
        (f"`{name}`", invariant.says)
        for name, invariant in sorted(INVARIANTS.items(), key=lambda item: not item[1].promise)
    ]
    promises = sum(invariant.promise for invariant in INVARIANTS.values())
    text = f"Clients rely on the first {promises}, the protocol on the others.\n\n"
    return text + table(("invariant", "what must hold"), rows)


def transaction_invariants() -> str:
    """Return the invariants in the model of transactions."""
    rows = [(f"`{name}`", invariant.says) for name, invariant in TRANSACTION_INVARIANTS.items()]
    return table(("invariant", "what must hold"), rows)


def transaction_rules() -> str:
    """Return the rules of transactions, with the releases and clients that have them."""
    lines = []
    for number, (name, meaning, _, _) in enumerate(transaction_table(CLIENTS[0])):
        having = {client: transaction_table(client)[number][3] for client in CLIENTS}
        releases = having[CLIENTS[0]]
        if len(set(having.values())) > 1:
            releases = ", ".join(f"{client} {names}" for client, names in having.items())
        lines.append(f"- `{name}` ({_since(releases)}): {_short(meaning)}\n")
    return "".join(lines)


def _since(releases: str) -> str:
    """Replace ranges up to the newest release: ``2.8.0 to 4.4.0`` becomes ``since 2.8.0``."""
    return re.sub(rf"(\S+) to {re.escape(ORDER[-1])}", r"since \1", releases)


def other_searches(measured: Sequence[SearchedOther]) -> str:
    """Return a table of search bounds; clients and releases with equal results share a row."""
    outcomes: dict[tuple[str, str], dict[str, dict[str, list[str]]]] = {}
    for search in measured:
        unusual = {
            name: number
            for name, number in search.bounds.items()
            if number and _USUAL.get(name) != number
        }
        bounds = ", ".join(f"{name} {number}" for name, number in unusual.items())
        broken = {name: f"{steps}" for name, steps in search.broken.items()}
        question = (bounds, _switches(search.switched))
        places = outcomes.setdefault(question, {}).setdefault(_broken(broken), {})
        places.setdefault(search.client, []).append(search.kafka)
    return _listed(
        (bounds, [(_clients(places), what) for what, places in rows.items()])
        for bounds, rows in outcomes.items()
    )


def _clients(places: Mapping[str, Sequence[str]]) -> str:
    listed = (f"{client} {', '.join(releases)}" for client, releases in places.items())
    return ", ".join(listed).strip()


def _broken(steps: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for name, number in steps.items():
        names.setdefault(number, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(alike)} {steps}" for steps, alike in names.items()) or _ALL_HOLD


def _switches(switched: Mapping[str, bool]) -> str:
    return ", ".join(f"`{name}` {'on' if on else 'off'}" for name, on in switched.items())


def _listed(groups: Iterable[tuple[tuple[str, str], Sequence[tuple[str, str]]]]) -> str:
    """Return a table of bounds with broken invariants, and the numbers of bounds without any."""
    broken: list[tuple[str, str, str]] = []
    holding: Counter[str] = Counter()
    for (bounds, switches), rows in groups:
        if all(what.startswith(_ALL_HOLD) for _, what in rows):
            holding[switches] += 1
            continue
        heads = [", ".join(filter(None, (bounds, switches))), *[""] * len(rows)]
        broken += [(head, where, what) for head, (where, what) in zip(heads, rows, strict=False)]
    parts = [table(("bounds", "releases", "broken after steps"), broken)] if broken else []
    if holding:
        numbers = ", ".join(
            f"{number} with {switches or 'no rule changed'}"
            for switches, number in sorted(holding.items())
        )
        parts.append(f"{_ALSO_HOLD}: {numbers}.\n")
    return "\n".join(parts)


def explaining() -> str:
    """Return the explanations of each anomaly, in the order in which the model tries them."""
    anomalies: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for anomaly, rules_ in EXPLANATIONS.items():
        alike = tuple((rule.name, rule.licence.name, rule.says) for rule in rules_)
        anomalies.setdefault(alike, []).append(anomaly)
    texts: set[str] = set()
    parts = []
    for alike, names in anomalies.items():
        parts.append(f"**{', '.join(names)}**\n\n")
        for name, licence, says_ in alike:
            permitted = "" if licence == _NO_LICENCE else f" ({licence})"
            parts.append(f"- `{name}`{permitted}: {'as above.' if says_ in texts else says_}\n")
            texts.add(says_)
        parts.append("\n")
    return "".join(parts).removesuffix("\n")


def observations() -> str:
    """Return each observation's source by kind of cluster, and the features that depend on it."""
    rows = []
    for observation, origin in SOURCES.items():
        resting = {
            rule.name
            for rules_ in EXPLANATIONS.values()
            for rule in rules_
            if observation in rule.needs
        }
        given = (text or "**no**" for text in (origin.inventory, origin.managed))
        sources = (origin.started, *given)
        rows.append((str(observation), origin.shows, *sources, str(len(resting))))
    heads = ("observation", "shows", "started by Highwater", "inventory", "managed service")
    return table((*heads, "explanations that rest on it"), rows)


def searches(measured: Sequence[Searched]) -> str:
    """Return a table of bounds: releases, failures, and broken invariants."""
    outcomes: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
    for search in sorted(measured, key=lambda row: (ORDER.index(row.kafka), row.scope.failures)):
        failures = f"{count(search.scope.failures, 'failure')}"
        question = (_bounds(search), _switches(search.switched))
        places = outcomes.setdefault(question, {})
        places.setdefault((failures, _outcome(search)), []).append(search.kafka)
    return _listed(
        (
            _with_failures(question, rows),
            [
                (_named(names) if _alike(rows) else f"{failures}, {_named(names)}", what)
                for (failures, what), names in sorted(rows.items(), key=_failures)
            ],
        )
        for question, rows in outcomes.items()
    )


def _named(releases: Sequence[str]) -> str:
    """Return ranges of releases; a range with a name in ``_RANGES`` is replaced by its name."""
    text = ranges(releases)
    for long, name in _RANGES.items():
        text = text.replace(long, name)
    return text


def _failures(row: tuple[tuple[str, str], object]) -> str:
    return row[0][0]


def _alike(rows: Iterable[tuple[str, str]]) -> bool:
    return len({failures for failures, _ in rows}) == 1


def _with_failures(question: tuple[str, str], rows: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return bounds, and add the number of failures if all searches have the same number."""
    bounds, switches = question
    failures, *others = {failures for failures, _ in rows}
    stated = "" if others or failures == _FAILURES else f", {failures}"
    return f"{bounds}{stated}", switches


def _bounds(searched: Searched) -> str:
    """Return the unusual bounds of a search, without failures and rules."""
    scope = searched.scope
    parts = [] if scope.acks == "all" else [f"acks={scope.acks}"]
    parts += [f"{scope.brokers} brokers", count(scope.records, "record")]
    parts += [count(scope.moves, "move")]
    parts += [count(scope.late, "late answer")] if scope.late else []
    parts += rare_bounds(scope)
    parts += [] if scope.stops else ["no orderly stops"]
    parts += [f"min.insync.replicas={scope.min_isr}"] if scope.min_isr > 1 else []
    parts += ["unclean elections"] if scope.unclean else []
    parts += ["elections by hand"] if scope.by_hand else []
    parts += [] if scope.by == "message" else [f"by {scope.by}"]
    return ", ".join(parts)


def _outcome(searched: Searched) -> str:
    """Return the broken invariants, with the numbers of steps."""
    steps = {
        name: _linked(str(broken.depth), broken.counterexample)
        for name, broken in searched.invariants.items()
        if broken is not None
    }
    names = () if set(searched.invariants) == set(PROMISES) else tuple(searched.invariants)
    about = f" ({', '.join(f'`{name}`' for name in names)})" if names and not steps else ""
    rest = "" if searched.exhausted else " (cut short)"
    return f"{_broken(steps)}{about}{rest}"


def replays(replays_: Sequence[MeasuredReplay]) -> str:
    """Return a row per counterexample: where real brokers reproduced it, and where they did not."""
    grouped: dict[str, list[MeasuredReplay]] = {}
    for replay in replays_:
        grouped.setdefault(replay.counterexample, []).append(replay)
    rows = [
        (
            _linked(name.removesuffix(".json"), name),
            counted((row.where, row.reproduced, row.runs) for row in group if row.reproduced),
            counted((row.where, row.runs, row.runs) for row in group if not row.reproduced),
            " ".join(dict.fromkeys(replay.note for replay in group if replay.note)),
        )
        for name, group in grouped.items()
    ]
    return table(("counterexample", "reproduced on", "kept by", "what else"), rows) if rows else ""


def counted(measured: Iterable[tuple[str, int, int]]) -> str:
    """Return counts such as ``10/10 on 4.4.0, 3.9.2``; releases with equal counts are grouped."""
    places: dict[tuple[int, int], list[str]] = {}
    for where, hits, runs in measured:
        places.setdefault((hits, runs), []).append(where)
    return "; ".join(
        f"{hits}/{runs} on {', '.join(names)}" for (hits, runs), names in places.items()
    )


def _linked(words: str, file: str | None) -> str:
    return f"[{words}](counterexamples/{Path(file).stem}.svg)" if file else words


def drawings() -> dict[str, Callable[[], str]]:
    """Return, for each counterexample, the path of an SVG file and a function that draws it."""

    def drawing(path: Path) -> Callable[[], str]:
        if path.stem.startswith("transactions-"):
            counterexample = TransactionCounterexample.load(path)
            return lambda: str(whole_transactions(counterexample, drawing_css())) + "\n"
        return lambda: str(whole(Counterexample.load(path), drawing_css())) + "\n"

    paths = sorted((DOCS / "counterexamples").glob("*.json"))
    return {f"counterexamples/{path.stem}.svg": drawing(path) for path in paths}
