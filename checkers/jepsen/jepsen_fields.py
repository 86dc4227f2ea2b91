"""Convert an anomaly in a Jepsen history to the fields that Jepsen reports for it."""

import re
from collections.abc import Callable
from typing import Any, Final

from highwater.checkers.cycles.search import SORTS
from highwater.checkers.jepsen.history_file import History
from highwater.checkers.jepsen.to_table import TOPIC
from highwater.harness.runs.history import END, READ, SEND

CYCLES: Final = tuple(sort.name for sort in SORTS)

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_ROLES: Final = {
    "G1a": ("writer", "reader"),
    "precommitted-read": ("writer", "reader"),
    "phantom": ("reader",),
    "lost-write": ("writer", "max-read"),
    "unseen": ("writer",),
    "vanished": ("writer", "reader", "max-read"),
}
"""For each kind of anomaly: the roles of the operations in ``witnesses``, in order."""

Row = dict[str, Any]


def entry(row: Row, history: History) -> Row:
    """Return an anomaly as ``highwater check --jepsen --json`` prints it.

    The result always has ``kind``, ``key``, ``value`` and ``witnesses``. It also has those fields
    that Jepsen reports for the kind and that are known: ``offset``, ``offsets``, ``values``,
    ``count``, ``delta``, ``skipped``, ``steps``.

    Args:
        row: the anomaly in columns of ``checkers.core.anomaly.ANOMALY``.
        history: the history in which the anomaly was found.
    """
    witnesses = [_witness(step, row["topic"], history) for step in row["steps"]]
    for witness, role in zip(witnesses, _ROLES.get(row["kind"], ()), strict=False):
        witness["role"] = role if witness["mop"] != END else "log-end"
    entry_fields = {
        "kind": row["kind"],
        "key": key(row["topic"], row["partition"]),
        "value": _value(row["value"]),
        "offset": row["offset"],
        "delta": row["delta"],
        **_DETAILS.get(row["kind"], _nothing)(row),
        "cause": row["cause"],
        "witnesses": witnesses,
    }
    if row["kind"] in CYCLES:
        pairs = zip(witnesses[::2], witnesses[1::2], strict=True)
        entry_fields["steps"] = steps = [_edge(before, after) for before, after in pairs]
        entry_fields["witnesses"] = witnesses[::2]
        entry_fields |= next(
            {"key": step["key"], "value": step["value"]} for step in steps if "key" in step
        )
    return {
        name: field
        for name, field in entry_fields.items()
        if field is not None or name in {"key", "value"}
    }


def _witness(step: Row, topic: str, history: History) -> Row:
    operation = history.operation(step["op"])
    row = {
        "index": operation.index,
        "process": operation.process,
        "type": operation.type,
        "f": operation.f,
    }
    if step["kind"] in {SEND, READ}:
        row["mop"] = "send" if step["kind"] == SEND else "poll"
        row["key"] = key(topic, step["partition"])
        row["offset"] = step["offset"]
        row["value"] = _value(step["value"])
    else:
        row["mop"] = step["kind"]
    if step["kind"] == END:
        row |= {"key": key(topic, step["partition"]), "offset": step["offset"]}
    return row


def _edge(before: Row, after: Row) -> Row:
    why = {"send": "ww", "poll": "wr"}.get(after["mop"], after["mop"])
    edge = {"type": why, "from": before["index"], "to": after["index"]}
    if why in {"ww", "wr"}:
        edge |= {"key": before["key"], "value": before["value"]}
    return edge | ({"value'": after["value"]} if why == "ww" else {})


def _nothing(row: Row) -> Row:  # noqa: ARG001 - all functions in _DETAILS have this signature
    return {}


def _duplicate(row: Row) -> Row:
    offsets = sorted(copy["offset"] for copy in row["copies"])
    return {"count": len(offsets), "offsets": offsets}


def _inconsistent(row: Row) -> Row:
    return {"values": [_value(copy["value"]) for copy in row["copies"]]}


def _unseen(row: Row) -> Row:
    return {"why": next((copy["note"] for copy in row["copies"] or ()), None)}


def _step(row: Row) -> Row:
    skipped = [_value(copy["value"]) for copy in row["copies"] or ()]
    values = [_value(step["value"]) for step in row["steps"]]
    return {"values": values, "skipped": skipped or None}


_DETAILS: Final[dict[str, Callable[[Row], Row]]] = {
    "duplicate": _duplicate,
    "inconsistent-offsets": _inconsistent,
    "unseen": _unseen,
    **dict.fromkeys(
        (
            *("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
            *("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"),
        ),
        _step,
    ),
}


def key(topic: str, partition: int | None) -> int | str | None:
    """Return the key of a record: a number, or EDN text for any other key."""
    return partition if topic == TOPIC else topic


def _value(text: str | None) -> int | str | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else text
