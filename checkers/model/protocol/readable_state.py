"""The state of the model in readable form, for reports, files and drawings."""

import msgspec

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants
from highwater.checkers.model.protocol.compiled import State as Vector
from highwater.checkers.model.protocol.scope import K_BROKERS, K_REASSIGNMENTS
from highwater.checkers.model.protocol.state_layout import (
    AnswerKind,
    Fetcher,
    ProcessState,
    ProducerStatus,
    epoch_of,
    follows,
    get,
    isr_of,
    leader_of,
    newest,
    replicas_of,
)


class LogEntry(msgspec.Struct, frozen=True):
    """A record in a log, and the leader epoch that it was written in."""

    record: str
    epoch: int


class FetchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch response in flight.

    Attributes:
        leader: the broker that sent the response.
        kind: ``records``, or ``diverging``.
        offset: the fetch offset; for ``diverging`` the end offset of the diverging epoch.
        epoch: the diverging epoch; None for ``records``.
        hw: the leader's HW in the response.
    """

    leader: int
    kind: str
    offset: int
    epoch: int | None
    entries: tuple[LogEntry, ...]
    hw: int


class ModelReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A broker and its replica.

    Attributes:
        process: ``up``, ``paused``, ``dead`` (killed) or ``stopped`` (shut down in order).
        hw_on_disk: the HW with which the broker would start.
        follows: the leader that the broker knows, which may be the broker itself; -1 for none.
        epoch: the leader epoch that the broker knows; -1 for none.
        isr: the ISR that the broker knows, if it believes that it leads.
        fetcher: ``none``, ``truncating`` (it must request the offset to truncate to), ``fetching``
            or ``ended``.
        answer: the fetch response in flight to the broker.
    """

    process: str
    log: tuple[LogEntry, ...]
    hw: int
    hw_on_disk: int
    follows: int
    epoch: int
    isr: tuple[int, ...]
    fetcher: str
    answer: FetchAnswer | None

    @property
    def leo(self) -> int:
        """Log end offset."""
        return len(self.log)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The complete state of the model at one time.

    Attributes:
        leader: the leader that the controller named last; -1 for none.
        live: the brokers that have a session with the controller.
        elr: replicas that may lead although they are not in the ISR (KIP-966).
        last_leader: the last known leader, stored while the partition has no leader (KIP-966); -1
            for none.
        acked: the records that a leader has acknowledged to their producers.
        assigned: the brokers that have a replica by the newest decision; empty in searches without
            reassignments.
        read: for each offset, the record that a consumer read there, or None.
    """

    leader: int
    epoch: int
    isr: tuple[int, ...]
    live: tuple[int, ...]
    elr: tuple[int, ...]
    last_leader: int
    sent: int
    acked: tuple[str, ...]
    read: tuple[str | None, ...]
    replicas: tuple[ModelReplica, ...]
    assigned: tuple[int, ...] = ()


def name_of(record: int) -> str:
    """Return a record's name from its number in the order of sending; ``-`` for a gap (-1)."""
    return f"m{record + 1}" if record >= 0 else "-"


def decode(s: Vector, k: Constants) -> State:
    """Return a state vector in readable form."""
    last = newest(s)
    n = int(k[K_BROKERS])
    read = [int(s[layout.READ + offset]) for offset in range(int(s[layout.SENT]))]
    while read and not read[-1]:
        read.pop()
    return State(
        leader=leader_of(s, last),
        epoch=int(s[layout.EPOCH + last]),
        isr=members(isr_of(s, last)),
        live=members(int(s[layout.LIVE])),
        elr=members(int(s[layout.ELR])),
        last_leader=int(s[layout.LAST_LEADER]) - 1,
        sent=int(s[layout.SENT]),
        acked=tuple(
            name_of(record)
            for record in range(int(s[layout.SENT]))
            if s[layout.STATUS + record] == ProducerStatus.ACKNOWLEDGED
        ),
        read=tuple(name_of(number - 1) if number else None for number in read),
        replicas=tuple(_replica(s, b) for b in range(n)),
        assigned=members(replicas_of(s, last)) if k[K_REASSIGNMENTS] else (),
    )


def _replica(s: Vector, b: int) -> ModelReplica:
    return ModelReplica(
        process=ProcessState(get(s, b, layout.PROCESS)).name.lower(),
        log=_entries(s, b, layout.LOG, get(s, b, layout.LEO)),
        hw=get(s, b, layout.HW),
        hw_on_disk=get(s, b, layout.DISK),
        follows=follows(s, b),
        epoch=epoch_of(s, b),
        isr=members(get(s, b, layout.VIEW)) if follows(s, b) == b else (),
        fetcher=Fetcher(get(s, b, layout.FETCHER)).name.lower(),
        answer=_answer(s, b),
    )


def _answer(s: Vector, b: int) -> FetchAnswer | None:
    kind, count = AnswerKind(get(s, b, layout.ANSWER)), get(s, b, layout.ANSWER_COUNT)
    if kind is AnswerKind.NONE:
        return None
    records = kind is AnswerKind.RECORDS
    return FetchAnswer(
        leader=get(s, b, layout.ANSWER_FROM),
        kind=kind.name.lower(),
        offset=get(s, b, layout.ANSWER_OFFSET),
        epoch=None if records else count,
        entries=_entries(s, b, layout.ANSWER_LOG, count) if records else (),
        hw=get(s, b, layout.ANSWER_HW),
    )


def _entries(s: Vector, b: int, first: int, count: int) -> tuple[LogEntry, ...]:
    packed = (get(s, b, first + n) for n in range(count))
    return tuple(LogEntry(record=name_of((entry & 7) - 1), epoch=entry >> 3) for entry in packed)


def members(mask: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set in a mask, the smallest first."""
    return tuple(b for b in range(8) if (mask >> b) & 1)
