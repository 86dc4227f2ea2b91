"""The page docs/clients.md: every library of clients against brokers of old and new releases.

``tools/client_trials.py`` plays the trials and writes their results.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

RESULTS: Final = Path(__file__).parent.parent / "docs" / "client-results.json"

WORKS: Final = "works"
LOST: Final = "sent, and not in the log"
SILENT: Final = "no answer"
LACKS: Final = "the client has none"
PARTIAL: Final = "committed without it"

PRODUCING: Final = ("acks=0", "acks=1", "acks=all", "idempotent", "transactional")
CONSUMING: Final = "consume"
REFUSED: Final = "a record was refused"
EXPIRED: Final = "a record has expired"
COMMITS: Final = (REFUSED, EXPIRED)

_NOTE: Final = "<!-- Written by `make docs` from docs/client-results.json. -->\n"
_INTRO: Final = """\
What each library does with brokers old and new: `python -m tools.client_trials` asks it to produce
one record with each setting (acks=0, acks=1, acks=all, idempotent, transactional), and to read one.
Nothing is refused beforehand here; `highwater run --client` refuses what does not work
([workload.md](workload.md)). A nightly test compares with the file
[client-results.json](client-results.json).

*Works*: the client said so, and the record is in the log. Otherwise it is the error's name. *The
client has none*: Java's clients before 0.11 ignore the setting.
"""
_COMMITS: Final = """\
A transaction has a record that was written, and one that cannot be: the broker refuses it
(`max.message.bytes`), or is down until it has expired. Then the client is asked to commit without a
look at the futures. An error is right; *works*: the client sent the record again, and it was
written. *committed without it*: the commit was acknowledged, without the record
([why](findings/partial-commit.md)).
"""


class ClientTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a client on a broker.

    Attributes:
        version: of the library.
        results: by action, ``works`` or the name of the error.
    """

    broker: str
    client: str
    version: str
    results: dict[str, str]


def read() -> tuple[ClientTrial, ...]:
    """Return what was recorded."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=tuple[ClientTrial, ...])


def clients() -> str:
    """docs/clients.md."""
    trials = read()
    parts = ["# Client libraries and brokers\n", _NOTE, _INTRO]
    for broker in dict.fromkeys(trial.broker for trial in trials):
        of_broker = [trial for trial in trials if trial.broker == broker]
        parts += [f"## A broker of {broker}\n", _cells(of_broker, (*PRODUCING, CONSUMING)), ""]
    committed = [trial for trial in trials if REFUSED in trial.results]
    parts += ["## A commit after a record that was not written\n", _COMMITS]
    parts.append(_cells(committed, COMMITS))
    return "\n".join(parts)


def _cells(trials: Sequence[ClientTrial], actions: Sequence[str]) -> str:
    """Return a line for clients alike: what all of its results are, or each."""
    alike: dict[str, list[str]] = {}
    for trial in trials:
        results = {trial.results[action]: "" for action in actions}
        for action in actions:
            results[trial.results[action]] += f", {action}"
        says = "; ".join(f"{_cell(text)}: {names[2:]}" for text, names in results.items())
        client = f"`{trial.client}` ({trial.version})"
        alike.setdefault("all work" if [*results] == [WORKS] else says, []).append(client)
    return "".join(f"- {', '.join(names)}: {says}\n" for says, names in alike.items())


def _cell(result: str) -> str:
    """Return a result in words, or the name of an error."""
    return result if result == WORKS or " " in result else f"`{result}`"
