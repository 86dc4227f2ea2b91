"""Generated histories written as ``jepsen.tests.kafka`` writes its own, with results left out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Final

from highwater.harness.runs.history import ASSIGN, END, OK, READ, REBALANCE, SEEK, SEND, SUBSCRIBE
from tests.property.generate import Op, Row

_FORMS: Final = ("nil value", "no value", "nil inside", "cut", "bare", "nil result")
"""How a result is left out: of the whole operation, of what follows in it, or of one part."""


@dataclass(slots=True)
class Written:
    """A history as EDN.

    Attributes:
        lines: a line an event.
        asked: by the line of each completion, the line of its invocation.
        dropped: lines of the completions whose result was left out.
    """

    lines: list[str] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def written(ops: Iterable[Op], dice: Random | None = None, share: float = 0.0) -> Written:
    """Return operations as EDN; with ``dice``, a share of those that ended well tells no result."""
    ops = list(ops)
    where = {row.value: row.partition for op in ops for row in op.rows if row.kind == READ}
    staged = _staged(ops)
    events = [(op.begin, 0, n) for n, op in enumerate(ops)]
    events += [(max(op.end, op.begin), 1, n) for n, op in enumerate(ops)]
    numbers: dict[str, int] = {}
    busy: set[int] = set()
    process: dict[int, int] = {}
    begun: dict[int, int] = {}
    result = Written()
    for _, ends, nth in sorted(events):
        op = ops[nth]
        parts = _parts(op.rows, where)
        if op.rows[0].kind == ASSIGN and op.outcome == OK:
            parts += [(str(key), str(key)) for key in sorted(staged.get(op.process, ()))]
        line = len(result.lines)
        if not ends:
            number = numbers.setdefault(op.process, len(numbers))
            if number in busy:  # a client that did not wait: Jepsen's all do
                number = numbers[f"{op.process} {nth}"] = len(numbers)
            busy.add(number)
            process[nth], begun[nth] = number, line
            value, kind = _value([request for request, _ in parts], op), "invoke"
        else:
            busy.discard(process[nth])
            result.asked[line] = begun[nth]
            value, kind = _value([answer for _, answer in parts], op), op.outcome
            judged = op.outcome == OK and op.rows[0].kind != END
            if dice is not None and judged and dice.random() < share:
                less = _less(op, parts, dice)
                result.dropped |= {line} if less != value else set()
                value = less
        head = f":index {line}, :type :{kind}, :process {process[nth]}, :f {_function(op)}"
        result.lines.append(f"{{{head}{value}{_log(op)}}}")
    return result


def _staged(ops: list[Op]) -> dict[str, set[int]]:
    """Return by client the keys that it reads, though never assigned to (``Draft.stage``)."""
    keys: dict[tuple[str, bool], set[int]] = {}
    for op in ops:
        for row in op.rows:
            if row.kind in (READ, ASSIGN) and row.partition is not None:
                keys.setdefault((op.process, row.kind == READ), set()).add(row.partition)
    return {
        op.process: keys.get((op.process, True), set()) - keys.get((op.process, False), set())
        for op in ops
    }


def _function(op: Op) -> str:
    kinds = {row.kind for row in op.rows} & {SEND, READ}
    first = op.rows[0].kind
    if first in (ASSIGN, SUBSCRIBE):
        return f":{first}"
    if first == END:
        return ":debug-topic-partitions"
    return ":txn" if len(kinds) > 1 else ":send" if kinds == {SEND} else ":poll"


def _log(op: Op) -> str:
    """Return a seek, too, as a rebalance: EDN has none to a place, and both excuse a step."""
    moved = [row.partition for row in op.rows if row.kind in (REBALANCE, SEEK)]
    return f", :rebalance-log [{{:keys {_listed(moved)}}}]" if moved else ""


def _listed(some: Iterable[object]) -> str:
    return f"[{' '.join(map(str, some))}]"


def _value(parts: Iterable[str], op: Op) -> str:
    if op.rows[0].kind == END:
        return f", :value {{{' '.join(parts)}}}"
    return f", :value {_listed(parts)}"


def _parts(rows: list[Row], where: dict[str, int | None]) -> list[tuple[str, str]]:
    """Return each micro-operation, or key, as it was asked for and as it was answered."""
    parts: list[tuple[str, str]] = []
    for kind, some in groupby(rows, key=lambda row: row.kind):
        if kind == SEND:
            for row in some:
                known = row.partition if row.partition is not None else where.get(row.value)
                ask = f'[:send {known or 0} "{row.value}"]'
                told = "nil" if row.offset is None else row.offset
                parts.append((ask, f'[:send {known or 0} [{told} "{row.value}"]]'))
        elif kind == READ:
            keys: dict[int | None, list[str]] = {}
            for row in some:
                keys.setdefault(row.partition, []).append(f'[{row.offset} "{row.value}"]')
            polled = " ".join(f"{key} {_listed(records)}" for key, records in keys.items())
            parts.append(("[:poll]", f"[:poll {{{polled}}}]"))
        elif kind in (ASSIGN, SUBSCRIBE):
            known_keys = [str(row.partition) for row in some if row.partition is not None]
            parts += zip(known_keys, known_keys, strict=True)
        elif kind == END:
            ends = " ".join(f"{row.partition} {{:offset {row.offset}}}" for row in some)
            parts.append((ends, ends))
        elif kind == SEEK:
            parts.append(("[:poll]", "[:poll {}]"))
    return parts


def _less(op: Op, parts: list[tuple[str, str]], dice: Random) -> str:
    """Return a value that lacks some of what the operation told."""
    answers = [answer for _, answer in parts]
    form = dice.choice(_FORMS)
    if form == "nil value" or op.rows[0].kind in (ASSIGN, SUBSCRIBE):
        return ", :value nil"
    if form == "no value" or not parts:
        return ""
    nth = dice.randrange(len(parts))
    if form == "cut":
        return _value(answers[:nth], op)
    request = parts[nth][0]
    if form == "nil inside":
        answers[nth] = "nil"
    elif form == "bare":
        answers[nth] = request
    elif request == "[:poll]":
        answers[nth] = "[:poll nil]"
    else:
        answers[nth] = f"{request.rpartition(' ')[0]} nil]"
    return _value(answers, op)
