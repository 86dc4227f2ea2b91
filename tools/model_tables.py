"""The tables of docs/model.md: rules from the code, results from docs/model-results.json."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.checkers.model.explain.explanations import EXPLANATIONS, NOT_EXPLAINING
from highwater.checkers.model.explain.observations import SOURCES
from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.rules_by_release import SWITCHES, rules_of
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_rules import CLIENTS
from highwater.cli.model_rules import ORDER, alike, ranges, says, source, transaction_table
from highwater.harness.base.wording import count
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.reports.drawings.counterexample_svg import whole
from highwater.reports.drawings.transaction_svg import whole_transactions
from highwater.reports.html import drawing_css

DOCS: Final = Path(__file__).parent.parent / "docs"
RESULTS: Final = DOCS / "model-results.json"
PROMISES: Final = tuple(name for name, invariant in INVARIANTS.items() if invariant.promise)


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant that does not hold; ``counterexample`` is a file in ``counterexamples/``."""

    depth: int
    counterexample: str | None = None


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """One search: its bounds, what it took, and what it found about each invariant (None: holds).

    Attributes:
        exhausted: whether every state within the bounds was met.
    """

    kafka: str
    acks: str
    min_isr: int
    brokers: int
    records: int
    failures: int
    moves: int
    late: int
    batch: int = 1
    failovers: int = 0
    wipes: int = 0
    joins: int = 0
    reassignments: int = 0
    unclean: bool = False
    by_hand: bool = False
    stops: bool = True
    by: str = "message"
    switched: Mapping[str, bool] = {}
    states: int
    depth: int
    seconds: float
    exhausted: bool
    invariants: Mapping[str, Broken | None]


class MeasuredReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A counterexample on real brokers: in how many of how many runs it came true.

    Attributes:
        client: library of the producers, as a plan has it; of transactions.
    """

    counterexample: str
    kafka: str
    client: str = LIBRDKAFKA
    runs: int
    reproduced: int
    note: str = ""

    @property
    def where(self) -> str:
        """The release, and the client if it is not the usual one."""
        return self.kafka if self.client == LIBRDKAFKA else f"{self.kafka}, {self.client}"


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule switched the other way, alone: what breaks then, and in how many steps."""

    switch: str
    kafka: str
    invariant: str | None
    depth: int | None
    states: int
    scope: str


class SearchedTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """One search of transactions: its bounds other than usual, and what it found.

    Attributes:
        broken: each invariant that can be broken, and in how many steps.
    """

    kafka: str
    client: str
    bounds: Mapping[str, int]
    switched: Mapping[str, bool] = {}
    states: int
    depth: int
    seconds: float
    broken: Mapping[str, int]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured."""

    scopes: tuple[Searched, ...] = ()
    replays: tuple[MeasuredReplay, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    transactions: tuple[SearchedTransactions, ...] = ()


def model() -> str:
    """docs/model.md: its text as it stands, its tables anew."""
    results = msgspec.json.decode(RESULTS.read_bytes(), type=Results)
    blocks = {
        "rules": rules,
        "invariants": invariants,
        "searches": lambda: searches(results.scopes),
        "replays": lambda: replays(results.replays),
        "mutations": lambda: mutations(results.mutations),
        "explanations": explanations,
        "not-explaining": not_explaining,
        "transaction-invariants": transaction_invariants,
        "transaction-searches": lambda: transaction_searches(results.transactions),
        "transaction-rules": transaction_rules,
    }
    return _with_blocks("model.md", blocks)


def external() -> str:
    """docs/external.md: its text as it stands, its table anew."""
    return _with_blocks("external.md", {"observations": observations})


def _with_blocks(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with its generated blocks anew."""
    text = (DOCS / page).read_text("utf-8")
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        written = f"{begin}\n{block()}\n{end}"
        text, times = re.subn(pattern, lambda _, new=written: new, text, flags=re.DOTALL)  # type: ignore[misc]
        assert times == 1, f"docs/{page} has no block {name}"
    return text


def rules() -> str:
    """Switches against releases, those with the same rules in one column; and what each means."""
    groups = alike()
    heads = ("rule", *("<br>".join(group) for group in groups))
    rows = [
        (f"`{switch}`", *("●" if getattr(rules_of(group[0]), switch) else "" for group in groups))
        for switch in SWITCHES
    ]
    meanings = [(f"`{switch}`", says(switch), source(switch)) for switch in SWITCHES]
    return table(heads, rows) + "\n" + table(("rule", "what it is", "source"), meanings)


def invariants() -> str:
    """Return what must hold, promises first."""
    rows = [
        (f"`{name}`", invariant.says, "clients" if invariant.promise else "the protocol")
        for name, invariant in INVARIANTS.items()
    ]
    return table(("invariant", "what must hold", "who relies on it"), rows)


def transaction_invariants() -> str:
    """Return what must hold in the model of transactions."""
    rows = [(f"`{name}`", invariant.says) for name, invariant in TRANSACTION_INVARIANTS.items()]
    return table(("invariant", "what must hold"), rows)


def transaction_rules() -> str:
    """Return the rules of transactions, and which releases have them with which client."""
    rows = []
    for number, (name, meaning, origin, _) in enumerate(transaction_table(CLIENTS[0])):
        having = {client: transaction_table(client)[number][3] for client in CLIENTS}
        releases = having[CLIENTS[0]]
        if len(set(having.values())) > 1:
            releases = "<br>".join(f"{client}: {names}" for client, names in having.items())
        rows.append((f"`{name}`", meaning, origin, releases))
    return table(("rule", "what it is", "source", "releases that have it"), rows)


def transaction_searches(measured: Sequence[SearchedTransactions]) -> str:
    """Return a row a search of transactions."""
    rows = [
        (
            search.kafka,
            search.client,
            ", ".join(f"{name} {number}" for name, number in search.bounds.items())
            + "".join(f", {name} {'on' if on else 'off'}" for name, on in search.switched.items()),
            "<br>".join(f"**`{name}` {steps} steps**" for name, steps in search.broken.items())
            or "all hold",
            f"{search.states:,}",
            str(search.depth),
        )
        for search in measured
    ]
    return table(("Kafka", "client", "bounds", "what breaks", "states", "depth"), rows)


def explanations() -> str:
    """Return the explanations of each anomaly, in the order in which they are tried."""
    rows = [
        (anomaly, f"`{rule.name}`", rule.licence.name, rule.says)
        for anomaly, rules in EXPLANATIONS.items()
        for rule in rules
    ]
    return table(("anomaly", "rule", "licensed by", "what explains it"), rows)


def not_explaining() -> str:
    """Return the switches that license no explanation, each with the reason."""
    rows = [(f"`{switch}`", reason) for switch, reason in NOT_EXPLAINING.items()]
    return table(("switch", "why it explains nothing"), rows)


def observations() -> str:
    """Return where each observation comes from on each kind of cluster, and what rests on it."""
    rows = []
    for observation, origin in SOURCES.items():
        sources = (origin.local, origin.containers, origin.inventory, origin.managed)
        resting = [
            f"`{rule.name}`"
            for rules in EXPLANATIONS.values()
            for rule in rules
            if observation in rule.needs
        ]
        given = (text or "**no**" for text in sources)
        rows.append((str(observation), origin.shows, *given, ", ".join(dict.fromkeys(resting))))
    heads = ("observation", "shows", "local", "containers", "inventory", "managed service")
    return table((*heads, "explanations that rest on it"), rows)


def searches(measured: Sequence[Searched]) -> str:
    """Return a table for each set of bounds: releases and failures against what clients rely on."""
    tables: dict[str, list[Searched]] = {}
    for search in measured:
        tables.setdefault(_bounds(search), []).append(search)
    return "\n".join(
        f"{bounds}\n\n{table(_heads(rows), _merged(rows))}" for bounds, rows in tables.items()
    )


def _heads(measured: Sequence[Searched]) -> tuple[str, ...]:
    names = (f"`{name}`" for name in _columns(measured))
    return ("Kafka", "failures", *names, "states", "depth")


def _columns(measured: Sequence[Searched]) -> tuple[str, ...]:
    """Return the promises, or what else the searches with the same bounds asked about."""
    questions = {name for search in measured for name in search.invariants}
    return (
        PROMISES if questions <= set(PROMISES) else tuple(n for n in INVARIANTS if n in questions)
    )


def _bounds(searched: Searched) -> str:
    return (
        f"**acks={searched.acks}, min.insync.replicas={searched.min_isr}**,"
        f" {'unclean' if searched.unclean else 'clean'} elections"
        f"{' and others by hand' if searched.by_hand else ''};"
        f" {searched.brokers} brokers, {count(searched.records, 'record')},"
        f" {count(searched.moves, 'leadership move')},"
        f" {count(searched.late, 'late answer')}{_rare(searched)}; a step is a {searched.by}:"
    )


def _rare(searched: Searched) -> str:
    """Return the bounds that most searches do not have."""
    counted = {
        "controller failover": searched.failovers,
        "replaced disk": searched.wipes,
        "late ISR request": searched.joins,
        "reassignment": searched.reassignments,
    }
    parts = [f", {count(n, what)}" for what, n in counted.items() if n]
    if searched.batch > 1:
        parts.append(f", {searched.batch} records in a batch")
    parts += [f", `{name}` {'on' if on else 'off'}" for name, on in searched.switched.items()]
    return "".join(parts) + ("" if searched.stops else ", no orderly stops")


def _merged(measured: Sequence[Searched]) -> list[tuple[str, ...]]:
    """Return a row a search; releases for which the same was found, state by state, share one."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for search in sorted(measured, key=lambda search: (ORDER.index(search.kafka), search.failures)):
        cells = tuple(_cell(search, name) for name in _columns(measured))
        columns = (str(search.failures), *cells, f"{search.states:,}", str(search.depth))
        rows.setdefault(columns, []).append(search.kafka)
    return [(ranges(names), *columns) for columns, names in rows.items()]


def _cell(searched: Searched, name: str) -> str:
    if name not in searched.invariants:
        return "-"
    broken = searched.invariants[name]
    if broken is None:
        return "holds" if searched.exhausted else "not broken so far"
    return f"**{_linked(f'{broken.depth} steps', broken.counterexample)}**"


def replays(replays_: Sequence[MeasuredReplay]) -> str:
    """Return a row a counterexample: where real brokers did the same, and where they did not."""
    grouped: dict[str, list[MeasuredReplay]] = {}
    for replay in replays_:
        grouped.setdefault(replay.counterexample, []).append(replay)
    rows = [
        (
            _linked(name.removesuffix(".json"), name),
            _counted(replay for replay in group if replay.reproduced),
            _counted(replay for replay in group if not replay.reproduced),
            " ".join(dict.fromkeys(replay.note for replay in group if replay.note)),
        )
        for name, group in grouped.items()
    ]
    return table(("counterexample", "reproduced on", "kept by", "what else"), rows) if rows else ""


def _counted(replays_: Iterable[MeasuredReplay]) -> str:
    return "<br>".join(
        f"{replay.where}: {replay.reproduced or replay.runs} of {replay.runs}"
        for replay in replays_
    )


def mutations(measured: Sequence[Mutation]) -> str:
    """Return a row for each rule that was switched the other way."""
    rows = [
        (
            f"`{mutation.switch}`",
            mutation.kafka,
            f"`{mutation.invariant}`" if mutation.depth is not None else "nothing",
            str(mutation.depth) if mutation.depth is not None else "-",
            f"{mutation.states:,}",
            mutation.scope,
        )
        for mutation in measured
    ]
    heads = ("rule", "switched on Kafka", "what breaks", "steps", "states", "within")
    return table(heads, rows) if rows else ""


def _linked(words: str, file: str | None) -> str:
    return f"[{words}](counterexamples/{Path(file).stem}.svg)" if file else words


def drawings() -> dict[str, Callable[[], str]]:
    """Return an SVG beside each counterexample in docs/counterexamples."""

    def drawing(path: Path) -> Callable[[], str]:
        if path.stem.startswith("transactions-"):
            counterexample = TransactionCounterexample.load(path)
            return lambda: str(whole_transactions(counterexample, drawing_css())) + "\n"
        return lambda: str(whole(Counterexample.load(path), drawing_css())) + "\n"

    paths = sorted((DOCS / "counterexamples").glob("*.json"))
    return {f"counterexamples/{path.stem}.svg": drawing(path) for path in paths}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
