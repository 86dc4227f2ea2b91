"""The messages that the relay held, dropped, repeated, delayed or refused, with their times."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_ENDS: Final = frozenset(("sent", "dropped", "lost", "refused"))
_AFTERWARDS: Final = {
    "repeated": "the relay sent a copy",
    "answered": "the client got the response",
    "discarded": "the response reached the relay after the client had ended",
}
_VERBS: Final = {
    "hold": "held",
    "drop": "dropped",
    "repeat": "repeated",
    "delay": "delayed",
    "refuse": "refused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpan:
    """One message that the relay held, dropped, repeated, delayed or refused.

    Attributes:
        name: the message's name: ``EndTxn client:producer-0>broker-1``.
        verb: the relay's action: held, dropped, repeated, delayed or refused.
        start_ns: when the message reached the relay.
        end_ns: when the relay sent or dropped the message; None if unknown.
        says: the events of the message as a sentence.
        overtaken: number of messages between the same two nodes that the relay sent meanwhile.
    """

    name: str
    verb: str
    start_ns: int
    end_ns: int | None
    says: str
    overtaken: int = 0


def message_spans(rows: Iterable[Mapping[str, Any]]) -> tuple[MessageSpan, ...]:
    """Return the messages in ``events/messages``, in order of arrival."""
    ordered = sorted(rows, key=lambda row: row["time_ns"])
    events: dict[int, list[Mapping[str, Any]]] = {}
    for row in ordered:
        if row["message"] is not None:
            events.setdefault(row["message"], []).append(row)
    passed = [row for row in ordered if row["event"] == "passed"]
    return tuple(_span(rows_of_message, passed) for rows_of_message in events.values())


def _span(events: list[Mapping[str, Any]], passed: list[Mapping[str, Any]]) -> MessageSpan:
    first = events[0]
    end = next((row for row in events if row["event"] in _ENDS), None)
    end_ns = None if end is None else int(end["time_ns"])
    ends = {first["source"], first["target"]}
    overtaken = sum(
        {row["source"], row["target"]} == ends
        and first["time_ns"] <= row["time_ns"] <= (row["time_ns"] if end_ns is None else end_ns)
        for row in passed
    )
    answer = " answer" if first["side"] == "answer" else ""
    return MessageSpan(
        name=f"{first['api']}{answer} {first['source']}>{first['target']}",
        verb=_VERBS.get(first["action"] or "", "held"),
        start_ns=int(first["time_ns"]),
        end_ns=end_ns,
        says=_sentence(events, overtaken),
        overtaken=overtaken,
    )


def _sentence(events: list[Mapping[str, Any]], overtaken: int) -> str:
    names = [row["event"] for row in events]
    words = (
        ["the client ended before the relay forwarded the message"]
        if "client-gone" in names
        else []
    )
    if "lost" in names:
        words.append("the connection ended, and the message was lost")
    words += [
        f"the relay answered with {row['cause']}"
        f" {'after' if row['side'] == 'answer' else 'before'} the broker executed the request"
        for row in events
        if row["event"] == "refused"
    ]
    words += [says for name, says in _AFTERWARDS.items() if name in names]
    if overtaken:
        words.append(
            f"number of later messages that the relay sent before this message: {overtaken}"
        )
    return "; ".join(words) or "the relay forwarded the message"
