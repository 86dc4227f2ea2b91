"""The page docs/clients.md: every client library with brokers of old and new releases.

``tools/client_trials.py`` runs the tests and writes their results. These commands add the results
of a client matrix:

    python -m tools.client_matrix FOLDER
    python -m tools.clients_page FOLDER/store/clients
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.campaigns.matrix_cells import DELIVERIES, Delivery, MatrixFolder, MatrixRow
from highwater.nemesis.stories.registry import STORIES
from highwater.reports.markdown import table
from tools import story_runs

FAULTS: Final = Path(__file__).parent.parent / "docs" / "client-faults.json"
RESULTS: Final = Path(__file__).parent.parent / "docs" / "client-results.json"
ADDRESSES: Final = Path(__file__).parent.parent / "docs" / "client-addresses.json"
POLLS: Final = Path(__file__).parent.parent / "docs" / "client-polls.json"
REFUSALS: Final = Path(__file__).parent.parent / "docs" / "client-refusals.json"

WORKS: Final = "works"
LOST: Final = "sent, but not in the log"
SILENT: Final = "no answer"
LACKS: Final = "the client has none"
PARTIAL: Final = "committed without it"

ELSEWHERE: Final = "written to the other cluster"

ABORTED: Final = "aborted"
UNCERTAIN: Final = "uncertain"
IN_THE_LOG: Final = "aborted, and in the log"
NOT_IN_THE_LOG: Final = "committed, and not in the log"
TWICE: Final = "in the log twice"

PRODUCING: Final = ("acks=0", "acks=1", "acks=all", "idempotent", "transactional")
CONSUMING: Final = "consume"
REFUSED: Final = "a record was refused"
EXPIRED: Final = "a record has expired"
COMMITS: Final = (REFUSED, EXPIRED)

EXPLAINED: Final = "explained"
_MOVED: Final = "move-txn-coordinator"
_HUNG: Final = "did not end"
_KINDS: Final = (" duplicate", " nonmonotonic-send")

_NOTE: Final = "<!-- Written by `make docs` from docs/client-results.json. -->\n"
_INTRO: Final = """\
In the first tables each library produces a record with each setting, and reads a record (`python -m
tools.client_trials`).

✓ means that the client reported success and the record is in the log. Other cells have the
client's error. *Ignored*: by Java's clients before 0.11.
"""
_FAULTS: Final = """\
Acknowledged records of runs of 60 s (`python -m tools.client_matrix FOLDER`), with lost answers,
killed brokers, late requests and moved leaders; in the last column with moved transaction
coordinators instead of the last two. [checkers.md](checkers.md) explains `duplicate` and
`nonmonotonic-send`, which Kafka does not prevent for plain producers. *Hung*: a commit without end.
"""
_REFUSED: Final = """\
Highwater's proxy refuses a request on 4.4.0, before or after the broker handles it (`python -m
tools.client_refusals FOLDER`). ✓: the client repeats it and commits. ↺: it reports an error, and
nothing is committed. ✗: the outcome is unknown. Bold: client and log disagree, in so many of ten
runs. —: the library or its driver sends no such request. sarama's `Commit()` returns nothing; its
driver reads the offset.
"""
_SHORT: Final = {
    "": "",
    WORKS: "✓",
    ABORTED: "↺",
    UNCERTAIN: "✗",
    SILENT: "…",
}
_UNSENT: Final = "—"
_SHORTER: Final = {WORKS: "✓", LACKS: "ignored", ELSEWHERE: "written elsewhere"}
"""The text for a result in tables of settings and in lists."""
_ADDRESS: Final = """\
Another cluster, with a topic of the same name, gets the address of a client's only broker
(KAFKA-20246, `python -m tools.client_addresses FOLDER`, four runs each). No transaction was
committed there. KIP-1242 needs another bootstrap address.
"""
_OTHER_ADDRESS: Final = """\
Here the client has a second bootstrap address, of another broker of its cluster. The first broker
was killed, and leads until its session ends. An error is correct.
"""
_COMMITS: Final = """\
A transaction has a record that was written, and a record that was not: the broker refused it
(`max.message.bytes`), or was down until it expired. The program commits, and looks at no future. An
error is correct. ✓: the client sent the record again. *Committed without it* is [a
finding](findings/partial-commit.md).
"""
_TRUNCATED: Final = """\
After an unclean election or a power failure on 4.4.0, other records stand at offsets that a paused
reader has passed ([KIP-320](hazards.md#kip-320)). librdkafka 2.16.0, `java:2.8.2`, `java:4.4.0`,
kafka-python and franz-go read them; on 2.1.1 only franz-go, after the election. `java:2.1.1`,
aiokafka, sarama, and after the election kafkajs and platformatic, skip them silently.
"""
_POLL: Final = "poll"
_JAVA: Final = """\
Runs that broke a story's promise ([hazards.md](hazards.md)), and the brokers' release. The last
column counts groups that skipped a record because a poll lost a partition (`python -m
tools.client_polls`).
"""


class ClientTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a client on a broker.

    Attributes:
        results: by action, ``works`` or the name of the error.
    """

    broker: str
    client: str
    version: str
    results: dict[str, str]


class ClientRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a client after the refusal of one of its requests.

    Attributes:
        library: its name and release.
        acted: whether the broker had acted on the request.
        result: the client's result, compared with the log.
        said: the error with which the transaction ended.
        times: number of trials with this result; ``plays`` is the number of all trials.
    """

    client: str
    library: str
    api: str
    error: str
    acted: bool
    result: str
    said: str
    times: int
    plays: int


class ClientAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a client after another cluster got a broker's address.

    Attributes:
        brokers: the number of brokers of the first cluster.
        results: by workload, the number of trials with each result.
    """

    broker: str
    brokers: int
    client: str
    version: str
    results: dict[str, dict[str, int]]


class ClientPolls(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a client that loses a partition during a poll.

    Attributes:
        skipped: number of trials in which the group skipped a record.
        plays: number of all trials.
        errors: the exceptions of polls.
    """

    broker: str
    client: str
    plays: int
    skipped: int
    errors: list[str]


class ClientFaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results of a client under faults.

    Attributes:
        library: the library's name, as the driver reports it.
        findings: numbers of records that are in the log twice, or in another order.
        model: the status of the model's explanation of the run.
        moved: whether the leaders of ``__transaction_state`` were moved.
        hung: whether the client did not end. Such a run is not judged.
    """

    kafka: str
    client: str
    library: str
    delivery: Delivery
    acknowledged: int
    lost: int
    findings: str
    model: str
    acks: str = "all"
    moved: bool = False
    hung: bool = False

    @property
    def column(self) -> str:
        """The heading of the client's column."""
        acks = "" if self.acks == "all" else f", acks={self.acks}"
        moved = ", coordinators moved" if self.moved else ""
        return f"{self.delivery}{acks}{moved}"

    @property
    def key(self) -> tuple[str, str, str]:
        """The client's sort key in the tables."""
        return self.kafka, self.client, self.column


def keep(folder: Path) -> None:
    """Write the results of a client matrix, which replace older results of the same clients."""
    matrix = MatrixFolder(folder)
    played = []
    for row in matrix.rows():
        run = matrix.run_of(row)
        assert run is not None, row.run
        played.append(of_cell(row, run.environment().libraries))
    FAULTS.write_bytes(
        msgspec.json.format(msgspec.json.encode(merged(_faults(), played)), indent=1) + b"\n"
    )


def of_cell(row: MatrixRow, libraries: Sequence[str]) -> ClientFaults:
    """Return a matrix cell's result; ``libraries`` are the names that its driver reported."""
    kinds = [kind for kind in row.others.split(", ") if kind.endswith(_KINDS)]
    return ClientFaults(
        kafka=row.kafka,
        client=Path(row.client).name.partition("@")[0],
        library=", ".join(libraries),
        delivery=row.delivery,
        acknowledged=row.acknowledged,
        lost=row.lost,
        findings=", ".join(kinds),
        model=row.model or "",
        acks=row.acks,
        moved=_MOVED in (row.nemesis or ""),
        hung=_HUNG in (row.problem or ""),
    )


def merged(before: Sequence[ClientFaults], played: Sequence[ClientFaults]) -> list[ClientFaults]:
    """Return all rows; later rows replace earlier ones."""
    return [*{row.key: row for row in (*before, *played)}.values()]


def _faults() -> list[ClientFaults]:
    return msgspec.json.decode(FAULTS.read_bytes(), type=list[ClientFaults])


def fault_tables(rows: Sequence[ClientFaults]) -> str:
    """Return a table for each release: the results of clients by setting."""
    lines = []
    columns = sorted({row.column: row for row in rows}.values(), key=_order)
    names = [row.column for row in columns]
    for kafka in dict.fromkeys(row.kafka for row in rows):
        cells = {(row.client, row.column): row for row in rows if row.kafka == kafka}
        lines += [
            "",
            f"| {kafka} | {' | '.join(names)} |",
            "|---" * (len(names) + 1) + "|",
        ]
        for client in dict.fromkeys(client for client, _ in cells):
            of_client = [cells.get((client, name)) for name in names]
            library = next((row.library for row in of_client if row and row.library), client)
            lines.append(f"| {library} | {' | '.join(map(_outcome, of_client))} |")
    open_ones = [
        f"{row.client} {row.column} {row.kafka}"
        for row in rows
        if row.model != EXPLAINED and not row.hung
    ]
    lines += ["", f"Not explained: {', '.join(open_ones) or 'none'}."]
    return "\n".join(lines)


def _order(row: ClientFaults) -> tuple[int, bool, bool]:
    return DELIVERIES.index(row.delivery), row.acks == "all", row.moved


def _outcome(row: ClientFaults | None) -> str:
    if row is None:
        return ""
    if row.hung:
        return "hung"
    lost = f"**{row.lost:,} lost**" if row.lost else ""
    findings = "" if row.delivery == "plain" else row.findings
    return ", ".join(filter(None, (f"{row.acknowledged:,}", lost, findings)))


def read() -> tuple[ClientTrial, ...]:
    """Return the recorded results."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=tuple[ClientTrial, ...])


def read_refusals() -> tuple[ClientRefusal, ...]:
    """Return the trials with refused requests."""
    return msgspec.json.decode(REFUSALS.read_bytes(), type=tuple[ClientRefusal, ...])


def read_polls() -> tuple[ClientPolls, ...]:
    """Return the trials in which a consumer loses a partition during a poll."""
    return msgspec.json.decode(POLLS.read_bytes(), type=tuple[ClientPolls, ...])


def read_addresses() -> tuple[ClientAddress, ...]:
    """Return the trials in which another cluster got the broker's address."""
    return msgspec.json.decode(ADDRESSES.read_bytes(), type=tuple[ClientAddress, ...])


def address_lines(trials: Sequence[ClientAddress]) -> str:
    """Return a line for each group of clients with equal results: ``- `java`: … records: …``."""
    alike: dict[str, dict[str, list[str]]] = {}
    for trial in trials:
        by_result: dict[str, list[str]] = {}
        for action, results in trial.results.items():
            if action != "transactional" or {ELSEWHERE, WORKS} & results.keys():
                by_result.setdefault(_counted(results), []).append(action)
        says = "; ".join(f"{' and '.join(actions)}: {text}" for text, actions in by_result.items())
        alike.setdefault(says, {}).setdefault(trial.client, []).append(trial.broker)
    brokers = list(dict.fromkeys(trial.broker for trial in trials))
    lines = []
    for says, clients in alike.items():
        names = [
            f"`{name}`" if on == brokers else f"`{name}` ({', '.join(on)})"
            for name, on in clients.items()
        ]
        lines.append(f"- {', '.join(names)}: {says}")
    return "\n".join(lines) + "\n"


def _counted(results: Mapping[str, int]) -> str:
    """Return the results as text, with their numbers of trials if they differ."""
    if len(results) == 1:
        return _cell(next(iter(results)))
    plays = sum(results.values())
    return ", ".join(f"{_cell(name)} {times}/{plays}" for name, times in sorted(results.items()))


def refusal_table(rows: Sequence[ClientRefusal]) -> str:
    """Return a table of results by error and client. Errors with equal results share a line."""
    libraries = list(dict.fromkeys(row.library for row in rows))
    sent = {(row.library, row.api) for row in rows}
    cells: dict[tuple[str, bool, str], dict[str, str]] = {}
    for row in rows:
        cells.setdefault((row.api, row.acted, row.error), {})[row.library] = _refused(row)
    alike: dict[tuple[str, ...], list[str]] = {}
    apis = list(dict.fromkeys(row.api for row in rows))
    ordered = sorted(cells.items(), key=lambda cell: (apis.index(cell[0][0]), cell[0][1]))
    for (api, acted, error), of_error in ordered:
        side = "after" if acted else "before"
        absent = {name: "" if (name, api) in sent else _UNSENT for name in libraries}
        line = (f"{api}, {side}", *(absent | of_error).values())
        alike.setdefault(line, []).append(f"`{error}`")
    lines = [f"| | | {' | '.join(libraries)} |", "|---" * (len(libraries) + 2) + "|"]
    for (place, *results), errors in alike.items():
        kinds = {*results} - {"", _UNSENT}
        if kinds == {_SHORT[WORKS]} or kinds <= {_SHORT[ABORTED], _SHORT[UNCERTAIN]}:
            continue
        lines.append(f"| {place} | {', '.join(errors)} | {' | '.join(results)} |")
    return "\n".join(lines)


def _refused(row: ClientRefusal) -> str:
    if row.result in _SHORT:
        return _SHORT[row.result]
    words = {IN_THE_LOG: "in the log", NOT_IN_THE_LOG: "not in the log", TWICE: "twice"}
    return f"**{words[row.result]}** {row.times}/{row.plays}"


def clients() -> str:
    """Return the text of docs/clients.md."""
    trials = read()
    parts = ["# Client libraries and brokers\n", _NOTE, _INTRO]
    for broker in dict.fromkeys(trial.broker for trial in trials):
        of_broker = [trial for trial in trials if trial.broker == broker]
        parts += [f"## A broker of {broker}\n", _cells(of_broker, (*PRODUCING, CONSUMING)), ""]
    parts += ["## Under faults\n", _FAULTS, fault_tables(_faults()), ""]
    parts += ["## Requests that are refused\n", _REFUSED, refusal_table(read_refusals()), ""]
    addresses = read_addresses()
    only, of_two = ([row for row in addresses if row.brokers == number] for number in (1, 2))
    parts += ["## An address of another cluster\n", _ADDRESS, address_lines(only)]
    parts += [_OTHER_ADDRESS, address_lines(of_two), ""]
    committed = [trial for trial in trials if REFUSED in trial.results]
    parts += ["## A commit after a record that was not written\n", _COMMITS]
    parts.append(_cells(committed, COMMITS))
    parts += ["## A log that was truncated\n", _TRUNCATED]
    parts += ["## By release of Java's client\n", _JAVA, _java_table(), ""]
    return "\n".join(parts)


def _java_table() -> str:
    """Return a table of Java client releases and the stories about them."""
    names = [story.name for story in STORIES.values() if story.needs.java]
    cells: dict[str, dict[str, str]] = {}
    for runs in story_runs.read():
        if runs.story in names:
            says = f"{runs.broken}/{runs.runs} ({runs.kafka})"
            cells.setdefault(runs.client, {})[runs.story] = says
    for polls in read_polls():
        says = f"{polls.skipped}/{polls.plays} ({polls.broker})"
        cells.setdefault(polls.client, {})[_POLL] = says
    heads = [*(f"`{name}`" for name in names), "KAFKA-20332"]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for client, of_client in sorted(cells.items()):
        listed = (of_client.get(name, "") for name in (*names, _POLL))
        lines.append(f"| {client} | {' | '.join(listed)} |")
    return "\n".join(lines)


def _cells(trials: Sequence[ClientTrial], actions: Sequence[str]) -> str:
    """Return a table of results; clients with equal results share a row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for trial in trials:
        release = "" if trial.client.endswith(f":{trial.version}") else f" ({trial.version})"
        results = tuple(_cell(trial.results[action]) for action in actions)
        alike.setdefault(results, []).append(f"`{trial.client}`{release}")
    rows = [(", ".join(names), *results) for results, names in alike.items()]
    return table(("client", *actions), rows)


def _cell(result: str) -> str:
    """Return a result as text, or the name of an error."""
    if result in _SHORTER:
        return _SHORTER[result]
    return result if " " in result else f"`{result}`"


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
