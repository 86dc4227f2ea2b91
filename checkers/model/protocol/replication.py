"""Fetching: a follower gets records, truncation offsets and high watermarks from its leader."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.broker_process import crash
from highwater.checkers.model.protocol.compiled import Constants, State, rule, spend_one
from highwater.checkers.model.protocol.isr import progress
from highwater.checkers.model.protocol.replica_log import (
    UNDEFINED,
    append,
    continues,
    cut,
    largest_epoch_to,
    last_epoch,
    start_after,
    told_epoch,
)
from highwater.checkers.model.protocol.state_layout import (
    AnswerKind,
    Fetcher,
    ProcessState,
    epoch_of,
    follows,
    get,
    is_up,
    presumes,
    put,
    replicas_of,
    spend,
)


@rule
def _serves(s: State, fenced: bool, leader: int, b: int) -> bool:
    """Return whether ``leader`` runs, believes that it leads, and accepts a request from ``b``."""
    if leader < 0 or not presumes(s, leader):
        return False
    if not (replicas_of(s, get(s, leader, layout.APPLIED_DECISION)) >> b) & 1:
        return False  # the leader knows of no replica on ``b``
    if get(s, b, layout.ANSWER) and get(s, b, layout.ANSWER_FROM) == leader:
        return False  # the fetcher thread still waits for the previous response
    return not fenced or epoch_of(s, leader) == epoch_of(s, b)


@rule
def truncate(s: State, k: Constants, b: int) -> bool:
    """Truncate a new follower's log to the end that its last epoch has in the leader's log."""
    leader = follows(s, b)
    if (
        not is_up(s, b)
        or get(s, b, layout.FETCHER) != Fetcher.TRUNCATING
        or not _serves(s, k[scope.K_FENCED_QUESTIONS] != 0, leader, b)
    ):
        return False
    epoch = last_epoch(s, b)
    if epoch < 0 or k[scope.K_OLD_FORMAT]:
        defined = k[scope.K_OLD_FORMAT] and not k[scope.K_NO_EPOCHS_IS_UNDEFINED]
        cut(s, k, b, get(s, leader, layout.LEO) if defined else get(s, b, layout.HW))
        put(s, b, layout.FETCHER, Fetcher.FETCHING)
    elif k[scope.K_EXACT_EPOCHS]:
        if cut_to_epoch(s, k, b, told_epoch(s, k, leader, epoch), start_after(s, leader, epoch)):
            put(s, b, layout.FETCHER, Fetcher.FETCHING)
    else:
        cut(s, k, b, _end_by_first_rule(s, leader, b, epoch))
        put(s, b, layout.FETCHER, Fetcher.FETCHING)
    return True


@rule
def _end_by_first_rule(s: State, leader: int, b: int, number: int) -> int:
    """Return the truncation offset by KIP-101: the epoch's end at the leader, or ``b``'s own HW."""
    latest = last_epoch(s, leader)
    if number == latest:
        return get(s, leader, layout.LEO)
    if latest < number or largest_epoch_to(s, leader, number) < 0:
        return get(s, b, layout.HW)
    return start_after(s, leader, number)


@rule
def cut_to_epoch(s: State, k: Constants, b: int, number: int, end: int) -> bool:
    """Truncate to the end of the largest common epoch (KIP-279).

    Args:
        number: the epoch in the leader's response; UNDEFINED if the response has no epoch.
        end: the end offset of that epoch in the leader's log.

    Returns:
        False if the follower must ask the leader about an older epoch.
    """
    if number == UNDEFINED:
        cut(s, k, b, get(s, b, layout.HW))
        return True
    to = largest_epoch_to(s, b, number)
    is_empty = to == UNDEFINED and k[scope.K_BELOW_FIRST_IS_EMPTY] and last_epoch(s, b) >= 0
    if to == number or is_empty:
        cut(s, k, b, min(start_after(s, b, number), end))
        return True
    if to == UNDEFINED:
        cut(s, k, b, end)
        return True
    cut(s, k, b, start_after(s, b, to))
    return False


@rule
def fetch(s: State, k: Constants, b: int) -> bool:
    """Fetch from the leader, and apply the response."""
    if not request(s, k, b):
        return False
    return get(s, b, layout.ANSWER) == 0 or take(s, k, b)


@rule
def ask(s: State, k: Constants, b: int) -> bool:
    """Send a fetch to the leader. The response stays in flight."""
    if not spend_one(s, layout.LATES, k[scope.K_LATE]):
        return False
    if not request(s, k, b) or get(s, b, layout.ANSWER) == 0:
        return False
    # A fetch without new records waits at the leader, as if it had not been sent.
    return get(s, b, layout.ANSWER) != AnswerKind.RECORDS or get(s, b, layout.ANSWER_COUNT) > 0


@rule
def receive(s: State, k: Constants, b: int) -> bool:
    """Apply the fetch response that is in flight to ``b``."""
    return get(s, b, layout.ANSWER) != 0 and is_up(s, b) and take(s, k, b)


@rule
def propose(s: State, k: Constants, b: int) -> bool:
    """Fetch. The leader then asks to add the follower to the ISR, and this request is delayed."""
    if not k[scope.K_ASYNC_ISR] or s[layout.JOIN] or not spend(s, 4, k[scope.K_JOINS]):
        return False
    s[layout.JOIN] = layout.ARMED
    return fetch(s, k, b) and s[layout.JOIN] != layout.ARMED


@rule
def request(s: State, k: Constants, b: int) -> bool:
    """Handle a follower's fetch at its leader: store the follower's LEO, and respond."""
    leader = follows(s, b)
    if (
        not is_up(s, b)
        or get(s, b, layout.FETCHER) != Fetcher.FETCHING
        or not _serves(s, k[scope.K_FENCED_FETCHES] != 0, leader, b)
    ):
        return False
    leo, end = get(s, b, layout.LEO), get(s, leader, layout.LEO)
    told_hw = get(s, leader, layout.HW)
    last = last_epoch(s, b)
    if k[scope.K_CUT_ON_FETCH] and last >= 0:
        epoch_told, told_end = told_epoch(s, k, leader, last), start_after(s, leader, last)
        if epoch_told != UNDEFINED and (epoch_told < last or told_end < leo):
            if not k[scope.K_DIVERGING_IS_NO_PROGRESS]:
                progress(s, k, leader, b)
            _put_answer(s, b, AnswerKind.DIVERGING, told_end, epoch_told)
            put(s, b, layout.ANSWER_LOG, leo)
            put(s, b, layout.ANSWER_HW, told_hw)
            return True
        if epoch_told == UNDEFINED:
            _out_of_range(s, k, b, end)
            return True
    if leo > end:
        _out_of_range(s, k, b, end)
        return True
    while end > leo and get(s, leader, layout.LOG + end - 1) & 7 == 0:
        end -= 1  # the entries at the end are a gap, so no record follows
    progress(s, k, leader, b)
    _put_answer(s, b, AnswerKind.RECORDS, leo, end - leo)
    put(s, b, layout.ANSWER_HW, told_hw)
    for position in range(leo, end):
        put(s, b, layout.ANSWER_LOG + position - leo, get(s, leader, layout.LOG + position))
    return True


@rule
def _put_answer(s: State, b: int, kind: int, offset: int, count: int) -> None:
    put(s, b, layout.ANSWER, kind)
    put(s, b, layout.ANSWER_FROM, follows(s, b))
    put(s, b, layout.ANSWER_KNOWN, epoch_of(s, b))
    put(s, b, layout.ANSWER_OFFSET, offset)
    put(s, b, layout.ANSWER_COUNT, count)


@rule
def clear_answer(s: State, b: int) -> None:
    """Drop the response in flight to ``b``."""
    for field in range(layout.ANSWER, layout.BLOCK):
        put(s, b, field, 0)


@rule
def take(s: State, k: Constants, b: int) -> bool:
    """Apply a fetch response to a follower, if its fetcher still expects the response."""
    kind, leader = get(s, b, layout.ANSWER), get(s, b, layout.ANSWER_FROM)
    offset, count = get(s, b, layout.ANSWER_OFFSET), get(s, b, layout.ANSWER_COUNT)
    same_epoch = get(s, b, layout.ANSWER_KNOWN) == epoch_of(s, b)
    state = get(s, b, layout.FETCHER)
    ready = state == Fetcher.FETCHING or (
        state == Fetcher.TRUNCATING and not k[scope.K_LATE_NEEDS_FETCHING]
    )
    if follows(s, b) == leader and ready and (same_epoch or not k[scope.K_LATE_FENCED]):
        if kind == AnswerKind.DIVERGING and get(s, b, layout.ANSWER_LOG) == get(s, b, layout.LEO):
            if k[scope.K_DIVERGING_TELLS_HW]:
                put(s, b, layout.HW, min(get(s, b, layout.LEO), get(s, b, layout.ANSWER_HW)))
            cut_to_epoch(s, k, b, count, offset)
        elif kind == AnswerKind.RECORDS and continues(s, get(s, b, layout.ANSWER_LOG)):
            put(s, b, layout.FETCHER, Fetcher.ENDED)  # the batch begins below the follower's LEO
        elif kind == AnswerKind.RECORDS and offset == get(s, b, layout.LEO):
            for position in range(count):
                append(s, b, get(s, b, layout.ANSWER_LOG + position))
            put(s, b, layout.HW, min(get(s, b, layout.LEO), get(s, b, layout.ANSWER_HW)))
            put(s, b, layout.FETCHER, Fetcher.FETCHING)
    clear_answer(s, b)
    return True


@rule
def _out_of_range(s: State, k: Constants, b: int, end: int) -> None:
    """Truncate a follower that is ahead of its leader to the leader's LEO, or let it exit."""
    if k[scope.K_OUT_OF_RANGE_CUTS] or k[scope.K_UNCLEAN]:
        cut(s, k, b, end)
    else:
        crash(s, b, ProcessState.DEAD)
