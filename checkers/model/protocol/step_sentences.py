"""Sentences that describe each step of the model and its effect."""

from collections.abc import Callable, Mapping
from typing import Final

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.moves import Move
from highwater.checkers.model.protocol.state_layout import (
    Fetcher,
    epoch_of,
    follows,
    get,
    has_replica,
    isr_of,
    leader_of,
    newest,
    replicas_of,
)

_Sentence = Callable[[int, int, State, State], str]
NAMES: Final = "ABC"
"""The names of brokers 0, 1 and 2 in sentences."""
_ALONE: Final = (0b001, 0b010, 0b100)


def says(kind: int, a: int, b: int, before: State, after: State) -> str:
    """Return a step as a sentence.

    Args:
        kind: a ``Move``; ``a`` and ``b`` are its brokers.
        before: the state before the step.
        after: the state after the step.
    """
    return _SENTENCES[Move(kind)](a, b, before, after)


def _send(a: int, _: int, __: State, after: State) -> str:
    record, offset = int(after[layout.SENT]), get(after, a, layout.LEO) - 1
    return f"{NAMES[a]} appends m{record} at offset {offset}"


def _batch(a: int, _: int, before: State, after: State) -> str:
    first, last = int(before[layout.SENT]) + 1, int(after[layout.SENT])
    offset = get(before, a, layout.LEO)
    return f"{NAMES[a]} appends m{first} to m{last} in one batch, from offset {offset}"


def _decided(after: State) -> str:
    last = newest(after)
    leader = leader_of(after, last)
    who = "no broker leads" if leader < 0 else f"{NAMES[leader]} is to lead"
    isr = ", ".join(NAMES[number] for number in range(3) if (isr_of(after, last) >> number) & 1)
    return f"{who} in epoch {int(after[layout.EPOCH + last])}, ISR {{{isr}}}"


def _change(b: int, before: State, after: State) -> str:
    """Return the changes of a replica's log, HW and fetcher as text."""
    leo, now = get(before, b, layout.LEO), get(after, b, layout.LEO)
    parts = []
    if now < leo:
        parts.append(f"truncates its log from {leo} to {now}")
    if now > leo:
        parts.append(f"gets {_records(now - leo)}, LEO {now}")
    if get(before, b, layout.HW) != get(after, b, layout.HW):
        parts.append(f"HW {get(after, b, layout.HW)}")
    if get(before, b, layout.FETCHER) != get(after, b, layout.FETCHER) == Fetcher.ENDED:
        parts.append("gets a batch that begins below its LEO, and its fetcher ends")
    return ", ".join(parts) or "gets nothing new"


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count} records"


def _learn(a: int, _: int, before: State, after: State) -> str:
    if not has_replica(after, a):
        deletes = get(before, a, layout.LEO) > get(after, a, layout.LEO)
        tail = ", and deletes its log" if deletes else ""
        return f"{NAMES[a]} learns that it has no replica{tail}"
    leader = follows(after, a)
    if leader < 0:
        return f"{NAMES[a]} learns that no broker leads"
    role = "that it leads" if leader == a else f"that {NAMES[leader]} leads"
    change = _change(a, before, after)
    tail = "" if change == "gets nothing new" else f", and {change}"
    return f"{NAMES[a]} learns {role}{tail}"


def _skip(a: int, b: int, before: State, after: State) -> str:
    return f"{_learn(a, b, before, after)}, without the decisions in between"


def _fetch(a: int, _: int, before: State, after: State) -> str:
    leader = follows(before, a)
    sentence = f"{NAMES[a]} fetches from {NAMES[leader]}: {_change(a, before, after)}"
    if get(before, leader, layout.HW) != get(after, leader, layout.HW):
        sentence += f"; {NAMES[leader]} commits up to {get(after, leader, layout.HW)}"
    if replicas_of(before, newest(before)) != replicas_of(after, newest(after)):
        sentence += f"; {NAMES[a]} is in sync, and the reassignment is complete: {_decided(after)}"
    elif isr_of(before, newest(before)) != isr_of(after, newest(after)):
        sentence += f"; {NAMES[a]} joins the ISR"
    return sentence


def _ask(a: int, _: int, before: State, after: State) -> str:
    leader = follows(before, a)
    sentence = f"{NAMES[a]} fetches from {NAMES[leader]}, and the answer is late"
    if get(before, leader, layout.HW) != get(after, leader, layout.HW):
        sentence += f"; {NAMES[leader]} commits up to {get(after, leader, layout.HW)}"
    return sentence


def _propose(a: int, b: int, before: State, after: State) -> str:
    leader = NAMES[follows(before, a)]
    sentence = _fetch(a, b, before, after)
    return f"{sentence}; {leader} asks to add {NAMES[a]} to the ISR, and the request is late"


def _reassign(target: int, _: int, before: State, after: State) -> str:
    sentence = f"an operator asks for the replicas {_who(target)}"
    if newest(before) == newest(after) or after[layout.REASSIGNED]:
        return f"{sentence}, which must be in sync first"
    return f"{sentence}; {_decided(after)}"


def _admit(a: int, _: int, before: State, after: State) -> str:
    sentence = f"{NAMES[a]}'s request for a larger ISR reaches the controller"
    if isr_of(before, newest(before)) == isr_of(after, newest(after)):
        return f"{sentence}, which refuses it"
    return f"{sentence}; {_decided(after)}"


def _truncate(a: int, _: int, before: State, after: State) -> str:
    leader = NAMES[follows(before, a)]
    change = _change(a, before, after)
    tail = "truncates nothing" if change == "gets nothing new" else change
    return f"{NAMES[a]} asks {leader} where its epoch ended, and {tail}"


def _shrink(a: int, b: int, before: State, after: State) -> str:
    sentence = f"{NAMES[a]} drops {NAMES[b]} from the ISR"
    committed = get(after, a, layout.HW)
    return (
        sentence
        if committed == get(before, a, layout.HW)
        else f"{sentence}, and commits up to {committed}"
    )


def _who(mask: int) -> str:
    names = [NAMES[b] for b in range(3) if (mask >> b) & 1]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _run(mask: int, _: int, before: State, after: State) -> str:
    sentences = []
    for b in range(3):
        if follows(before, b) != follows(after, b) or epoch_of(before, b) != epoch_of(after, b):
            sentences.append(_learn(b, 0, before, after))
        elif (change := _change(b, before, after)) != "gets nothing new":
            sentences.append(f"{NAMES[b]} {change}")
    if isr_of(before, newest(before)) != isr_of(after, newest(after)):
        sentences.append(_decided(after))
    runs = "runs" if mask in _ALONE else "run"
    return f"{_who(mask)} {runs}: {'; '.join(sentences) or 'nothing is left to do'}"


def _tell(mask: int, _: int, before: State, after: State) -> str:
    sentences = [
        f"{NAMES[b]}'s HW is {get(after, b, layout.HW)}"
        for b in range(3)
        if get(before, b, layout.HW) != get(after, b, layout.HW)
    ]
    return f"{_who(mask)} go on fetching: {', '.join(sentences)}"


_SENTENCES: Final[Mapping[Move, _Sentence]] = {
    Move.SEND: _send,
    Move.KILL: lambda a, _, __, ___: f"{NAMES[a]} is killed",
    Move.PAUSE: lambda a, _, __, ___: f"{NAMES[a]} is paused",
    Move.RESUME: lambda a, _, __, ___: f"{NAMES[a]} goes on",
    Move.START: lambda a, _, __, after: f"{NAMES[a]} starts; {_decided(after)}",
    Move.STOP: lambda a, _, __, after: f"{NAMES[a]} is shut down in order; {_decided(after)}",
    Move.MOVE: lambda a, _, __, after: f"leadership is moved to {NAMES[a]}; {_decided(after)}",
    Move.LAG: lambda a, b, before, after: f"{NAMES[b]} lags: {_shrink(a, b, before, after)}",
    Move.EXPIRE: lambda a, _, __, after: f"{NAMES[a]}'s session ends; {_decided(after)}",
    Move.REGISTER: lambda a, _, __, after: f"{NAMES[a]} registers again; {_decided(after)}",
    Move.LEARN: _learn,
    Move.SKIP: _skip,
    Move.TRUNCATE: _truncate,
    Move.FETCH: _fetch,
    Move.ASK: _ask,
    Move.RECEIVE: lambda a, _, before, after: (
        f"the late answer reaches {NAMES[a]}, which {_change(a, before, after)}"
    ),
    Move.SHRINK: _shrink,
    Move.CONFIRM: lambda a, _, before, after: (
        f"{NAMES[a]} learns that its ISR is accepted, and commits up to {get(after, a, layout.HW)}"
        if get(before, a, layout.HW) != get(after, a, layout.HW)
        else f"{NAMES[a]} learns that its ISR is accepted"
    ),
    Move.RUN: _run,
    Move.TELL: _tell,
    Move.SAVE: lambda mask, _, __, ___: (
        f"{_who(mask)} {'writes its' if mask in _ALONE else 'write their'} HW to disk"
    ),
    Move.BATCH: _batch,
    Move.FAILOVER: lambda _, __, ___, ____: (
        "the controller dies, and the next controller sends the present state"
    ),
    Move.WIPE: lambda a, _, __, ___: f"{NAMES[a]}'s disk is replaced by an empty one",
    Move.PROPOSE: _propose,
    Move.ADMIT: _admit,
    Move.REASSIGN: _reassign,
    Move.CANCEL: lambda _, __, ___, after: (
        f"the operator cancels the reassignment; {_decided(after)}"
    ),
    Move.ELECT: lambda _, __, ___, after: (
        f"an operator asks for an unclean election; {_decided(after)}"
    ),
    Move.CHECKPOINT: lambda a, _, __, after: (
        f"{NAMES[a]} writes HW {get(after, a, layout.HW)} to disk"
    ),
}
