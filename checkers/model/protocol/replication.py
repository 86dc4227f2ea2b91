"""Fetching: how records, truncations and high watermarks reach followers from their leader."""

from highwater.checkers.model.protocol.broker_process import crash
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.isr import progress
from highwater.checkers.model.protocol.replica_log import (
    UNDEFINED,
    append,
    cut,
    largest_epoch_to,
    last_epoch,
    start_after,
    told_epoch,
)
from highwater.checkers.model.protocol.scope import (
    K_BELOW_FIRST_IS_EMPTY,
    K_CUT_ON_FETCH,
    K_DIVERGING_IS_NO_PROGRESS,
    K_DIVERGING_TELLS_HW,
    K_EXACT_EPOCHS,
    K_FENCED_FETCHES,
    K_FENCED_QUESTIONS,
    K_LATE,
    K_LATE_FENCED,
    K_LATE_NEEDS_FETCHING,
    K_NO_EPOCHS_IS_UNDEFINED,
    K_OLD_FORMAT,
    K_OUT_OF_RANGE_CUTS,
    K_UNCLEAN,
)
from highwater.checkers.model.protocol.state_layout import (
    ANSWER,
    ANSWER_COUNT,
    ANSWER_FROM,
    ANSWER_HW,
    ANSWER_KNOWN,
    ANSWER_LOG,
    ANSWER_OFFSET,
    BLOCK,
    FETCHER,
    HW,
    LATES,
    LEO,
    LOG,
    AnswerKind,
    Fetcher,
    ProcessState,
    epoch_of,
    follows,
    get,
    is_up,
    presumes,
    put,
)

_TRUNCATING = int(Fetcher.TRUNCATING)
_FETCHING = int(Fetcher.FETCHING)
_RECORDS = int(AnswerKind.RECORDS)
_DIVERGING = int(AnswerKind.DIVERGING)
_DEAD = int(ProcessState.DEAD)


@rule
def _serves(s: State, fenced: bool, leader: int, b: int) -> bool:
    """Return whether the broker that ``b`` follows runs, believes it leads, and lets it in."""
    if leader < 0 or not presumes(s, leader):
        return False
    if get(s, b, ANSWER) and get(s, b, ANSWER_FROM) == leader:
        return False  # the fetcher thread still waits for its answer
    return not fenced or epoch_of(s, leader) == epoch_of(s, b)


@rule
def truncate(s: State, k: Constants, b: int) -> bool:
    """Truncate a new follower where its leader says that the follower's last epoch ended."""
    leader = follows(s, b)
    if (
        not is_up(s, b)
        or get(s, b, FETCHER) != _TRUNCATING
        or not _serves(s, k[K_FENCED_QUESTIONS] != 0, leader, b)
    ):
        return False
    epoch = last_epoch(s, b)
    if epoch < 0 or k[K_OLD_FORMAT]:
        defined = k[K_OLD_FORMAT] and not k[K_NO_EPOCHS_IS_UNDEFINED]
        cut(s, k, b, get(s, leader, LEO) if defined else get(s, b, HW))
        put(s, b, FETCHER, _FETCHING)
    elif k[K_EXACT_EPOCHS]:
        if cut_to_epoch(s, k, b, told_epoch(s, k, leader, epoch), start_after(s, leader, epoch)):
            put(s, b, FETCHER, _FETCHING)
    else:
        cut(s, k, b, _end_by_first_rule(s, leader, b, epoch))
        put(s, b, FETCHER, _FETCHING)
    return True


@rule
def _end_by_first_rule(s: State, leader: int, b: int, number: int) -> int:
    """Truncate by KIP-101: to the leader's first larger epoch, or to the follower's HW."""
    latest = last_epoch(s, leader)
    if number == latest:
        return get(s, leader, LEO)
    if latest < number or largest_epoch_to(s, leader, number) < 0:
        return get(s, b, HW)
    return start_after(s, leader, number)


@rule
def cut_to_epoch(s: State, k: Constants, b: int, number: int, end: int) -> bool:
    """Truncate by KIP-279: to the end of the largest common epoch in both logs; False: ask again.

    Args:
        number: the epoch that the leader's answer is for, UNDEFINED if it has none.
        end: where it ends in the leader's log.
    """
    if number == UNDEFINED:
        cut(s, k, b, get(s, b, HW))
        return True
    to = largest_epoch_to(s, b, number)
    if to == number or (to == UNDEFINED and k[K_BELOW_FIRST_IS_EMPTY] and last_epoch(s, b) >= 0):
        cut(s, k, b, min(start_after(s, b, number), end))
        return True
    if to == UNDEFINED:
        cut(s, k, b, end)
        return True
    cut(s, k, b, start_after(s, b, to))
    return False


@rule
def fetch(s: State, k: Constants, b: int) -> bool:
    """Fetch from the leader, and apply the answer."""
    if not request(s, k, b):
        return False
    return get(s, b, ANSWER) == 0 or take(s, k, b)


@rule
def ask(s: State, k: Constants, b: int) -> bool:
    """Fetch from the leader, which answers; the answer is in flight afterwards."""
    if s[LATES] >= k[K_LATE] or not request(s, k, b) or get(s, b, ANSWER) == 0:
        return False
    if get(s, b, ANSWER) == _RECORDS and get(s, b, ANSWER_COUNT) == 0:
        return False  # such a fetch is parked at the leader, which is as if it had not been sent
    s[LATES] = int(s[LATES]) + 1
    return True


@rule
def receive(s: State, k: Constants, b: int) -> bool:
    """Apply an answer in flight."""
    return get(s, b, ANSWER) != 0 and is_up(s, b) and take(s, k, b)


@rule
def request(s: State, k: Constants, b: int) -> bool:
    """Handle a fetch at the leader: note the follower's progress, and answer."""
    leader = follows(s, b)
    if (
        not is_up(s, b)
        or get(s, b, FETCHER) != _FETCHING
        or not _serves(s, k[K_FENCED_FETCHES] != 0, leader, b)
    ):
        return False
    leo, end = get(s, b, LEO), get(s, leader, LEO)
    last = last_epoch(s, b)
    if k[K_CUT_ON_FETCH] and last >= 0:
        epoch_told, told_end = told_epoch(s, k, leader, last), start_after(s, leader, last)
        if epoch_told != UNDEFINED and (epoch_told < last or told_end < leo):
            if not k[K_DIVERGING_IS_NO_PROGRESS]:
                progress(s, k, leader, b)
            _put_answer(s, b, _DIVERGING, told_end, epoch_told)
            put(s, b, ANSWER_LOG, leo)
            put(s, b, ANSWER_HW, get(s, leader, HW))
            return True
        if epoch_told == UNDEFINED:
            _out_of_range(s, k, b, end)
            return True
    if leo > end:
        _out_of_range(s, k, b, end)
        return True
    told_hw = get(s, leader, HW)
    progress(s, k, leader, b)
    _put_answer(s, b, _RECORDS, leo, end - leo)
    put(s, b, ANSWER_HW, told_hw)
    for position in range(leo, end):
        put(s, b, ANSWER_LOG + position - leo, get(s, leader, LOG + position))
    return True


@rule
def _put_answer(s: State, b: int, kind: int, offset: int, count: int) -> None:
    put(s, b, ANSWER, kind)
    put(s, b, ANSWER_FROM, follows(s, b))
    put(s, b, ANSWER_KNOWN, epoch_of(s, b))
    put(s, b, ANSWER_OFFSET, offset)
    put(s, b, ANSWER_COUNT, count)


@rule
def clear_answer(s: State, b: int) -> None:
    """Drop the answer in flight to ``b``."""
    for field in range(ANSWER, BLOCK):
        put(s, b, field, 0)


@rule
def take(s: State, k: Constants, b: int) -> bool:
    """Apply an answer to a follower, unless its fetcher has moved on."""
    kind, leader = get(s, b, ANSWER), get(s, b, ANSWER_FROM)
    offset, count = get(s, b, ANSWER_OFFSET), get(s, b, ANSWER_COUNT)
    same_epoch = get(s, b, ANSWER_KNOWN) == epoch_of(s, b)
    state = get(s, b, FETCHER)
    ready = state == _FETCHING or (state == _TRUNCATING and not k[K_LATE_NEEDS_FETCHING])
    if follows(s, b) == leader and ready and (same_epoch or not k[K_LATE_FENCED]):
        if kind == _DIVERGING and get(s, b, ANSWER_LOG) == get(s, b, LEO):
            if k[K_DIVERGING_TELLS_HW]:
                put(s, b, HW, min(get(s, b, LEO), get(s, b, ANSWER_HW)))
            cut_to_epoch(s, k, b, count, offset)
        elif kind == _RECORDS and offset == get(s, b, LEO):
            for position in range(count):
                append(s, b, get(s, b, ANSWER_LOG + position))
            put(s, b, HW, min(get(s, b, LEO), get(s, b, ANSWER_HW)))
            put(s, b, FETCHER, _FETCHING)
    clear_answer(s, b)
    return True


@rule
def _out_of_range(s: State, k: Constants, b: int, end: int) -> None:
    """Handle a follower ahead of its leader: it ends itself, or truncates to the leader's LEO."""
    if k[K_OUT_OF_RANGE_CUTS] or k[K_UNCLEAN]:
        cut(s, k, b, end)
    else:
        crash(s, b, _DEAD)
