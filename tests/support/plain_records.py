"""What is wrong with records, found by plain loops over rows: slow, and easy to compare with."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from highwater.checkers.history.findings import OF_FIRST, OF_NONE
from highwater.checkers.history.row_flags import (
    ADRIFT,
    ENDED,
    IN_FINAL,
    OF_FENCE,
    PEEK,
    READ_BY_ANY,
    READ_OK,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
)
from tests.support.small_views import Found, Row

Copy = tuple[int | None, int, str | None]

_FOREVER = 1 << 62


def has(row: Row, bits: int) -> bool:
    return bool(row["fact"] & bits)


def offsets(rows: Iterable[Row]) -> list[int]:
    return sorted({row["offset"] for row in rows if row["offset"] is not None})


class Record:
    """All rows of one record, in their order."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.slot = rows[0]["slot"]
        self.word = rows[0]["word"]
        self.facts = 0
        for row in rows:
            self.facts |= row["fact"]
        self.writer = max((row["operation"] for row in self.having(SENT)), default=None)

    def having(self, bits: int) -> list[Row]:
        return [row for row in self.rows if has(row, bits)]

    @cached_property
    def places(self) -> list[int]:
        return offsets(row for row in self.rows if not has(row, SENT_FAIL))

    @cached_property
    def met(self) -> list[int]:
        return offsets(row for row in self.having(SEEN_OK) if has(row, IN_FINAL))


class Plain:
    """A small history of one run, by plain loops."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = sorted(rows, key=lambda row: int(row["at"]))
        of_records = [row for row in self.rows if has(row, SENT | SEEN)]
        self.records = [Record(group) for group in _by(of_records, lambda row: row["key"])]
        proven = {
            each.writer for each in self.records if each.facts & SENT_INFO and each.facts & READ_OK
        }
        landed = {
            each.rows[0]["key"]
            for each in self.records
            if each.facts & SENT_OK or each.writer in proven
        }
        self.effective = [
            row
            for row in of_records
            if has(row, SENT_OK) or (has(row, SENT_INFO) and row["operation"] in proven)
        ]
        self.late = any(
            each.facts & STRAY or (each.facts & PEEK and not each.facts & READ_BY_ANY)
            for each in self.records
        )
        self.placed = [
            row
            for row in of_records
            if row["offset"] is not None
            and (
                has(row, SENT_OK | READ_BY_ANY)
                or (self.late and row in self.effective)
                or (self.late and has(row, PEEK) and row["key"] in landed)
            )
        ]

    def contents(self) -> list[Found]:
        found = [*self._duplicates(), *self._unread()]
        adrift = {row["word"] for row in self.rows if has(row, ADRIFT)}
        for record in self.records:
            facts, rows = record.facts, record.rows
            if facts & SENT_FAIL and facts & READ_OK and not facts & (SENT_OK | SENT_INFO):
                found.append(_pair("G1a", record.having(SENT_FAIL), record.having(READ_OK)))
            for operation in _by(rows, lambda row: row["operation"]):
                sends = [row for row in operation if has(row, SENT)]
                if sends and (reads := [row for row in operation if has(row, READ_BY_ANY)]):
                    found.append(_pair("precommitted-read", sends, reads))
            if not facts & SENT and record.word not in adrift:
                found.append(_finding("phantom", rows[0]["offset"], rows[:1]))
        return sorted(found, key=repr)

    def shared_offsets(self) -> list[Found]:
        found = []
        for rows in _by(self.placed, lambda row: (row["slot"], row["offset"])):
            firsts = [group[0] for group in _by(rows, lambda row: row["key"])]
            if len(firsts) > 1 and rows[0]["slot"] in self.crowded:
                copies = [(row["offset"], row["at"], None) for row in firsts]
                found.append(
                    _finding("inconsistent-offsets", rows[0]["offset"], [], copies, OF_NONE)
                )
        return sorted(found, key=repr)

    @cached_property
    def crowded(self) -> set[int]:
        known = defaultdict[int, int](int)
        crowded = {each.slot for each in self.records if len(each.places) > 1}
        for each in self.records:
            known[each.slot] += bool(
                each.places and each.facts & (SENT_OK | READ_BY_ANY | SENT_INFO)
            )
        for slot, offsets in self.known.items():
            if known[slot] > len(offsets):
                crowded.add(slot)
        return crowded & self.known.keys()

    @cached_property
    def known(self) -> dict[int, set[int]]:
        """The offsets of each slot that are known."""
        known = defaultdict[int, set[int]](set)
        for row in self.placed:
            if not (has(row, ADRIFT) and has(row, SENT_OK)):
                known[row["slot"]].add(row["offset"])
        return known

    def vanished(self, passed: Iterable[tuple[int, int]] = ()) -> list[Found]:
        """``passed``: keys, and ``at`` of the rows that show that they are gone."""
        gone = dict[int, int]()
        for key, at in [*passed, *self._replaced(), *self._cut_off()]:
            gone[key] = max(gone.get(key, -1), at)
        found = []
        for record in self.records:
            sent, seen = record.having(SENT_OK), record.having(SEEN_OK)
            at = gone.get(record.rows[0]["key"], -1)
            if sent and seen and seen[-1]["at"] < at:
                steps = [sent[0], seen[-1], self._row(at)]
                found.append(_finding("vanished", seen[-1]["offset"], steps))
        return sorted(found, key=repr)

    def fates(self, limits: dict[int, tuple[int | None, bool]]) -> list[Found]:
        """``limits``: how far the final read came in each slot, and whether that is all."""
        adrift = {row["word"] for row in self.rows if has(row, ADRIFT)}
        found = []
        for record in self.records:
            sends = record.having(SENT)
            fence = any(has(row, OF_FENCE) for row in sends)
            missing = record.facts & SENT_OK and not fence and not record.met
            subjects = [(int(has(row, SENT_OK)), row["at"]) for row in sends]
            if sends and len(record.met) > 1:
                met = [(record.met[end], sends[0]["at"], None) for end in (0, -1)]
                found.append(_finding("duplicate", record.met[0], [], met, subjects=subjects))
            elsewhere = [row for row in self.rows if row["word"] == record.word]
            if record.word in adrift and Record(elsewhere).met:
                continue
            if not missing:
                continue
            told = max(offsets(sends), default=None)
            reach, complete = limits.get(record.slot, (None, False))
            reached = told is not None and reach is not None and told <= reach
            copies: list[Copy] = []
            if (complete or reached) and told is None and record.places:
                copies = [(record.places[0], sends[0]["at"], "a reader received it")]
            kind = "lost-write" if complete or reached else "unseen"
            found.append(_finding(kind, told, [], copies, subjects=subjects))
        return sorted(found, key=repr)

    def _duplicates(self) -> Iterable[Found]:
        for rows in _by(self.placed, lambda row: row["key"]):
            places = offsets(rows)
            first = [next(row for row in rows if row["offset"] == place) for place in places]
            copies = [(row["offset"], row["at"], None) for row in first]
            if len(copies) > 1:
                yield _finding("duplicate", places[0], [], copies)

    def _unread(self) -> Iterable[Found]:
        bounds = dict[int, int]()
        for each in self.records:
            if each.facts & SEEN_OK and each.places:
                bounds[each.slot] = max(bounds.get(each.slot, -1), each.places[0])
        seen = {row["word"] for row in self.rows if has(row, SEEN_OK)}
        for record in self.records:
            sent = [row for row in record.rows if row in self.effective]
            if record.facts & SEEN_OK or not sent:
                continue
            if record.rows[0]["partition"] is None and record.word in seen:
                continue
            told = [row for row in record.rows if row in sent or has(row, READ_BY_ANY)]
            last = max(offsets(told), default=None)
            bound = bounds.get(record.slot, -1)
            if last is not None and last <= bound:
                reader = [
                    row
                    for row in self.rows
                    if has(row, SEEN_OK) and (row["slot"], row["offset"]) == (record.slot, bound)
                ]
                yield _finding("lost-write", last, [sent[0], *reader[:1]])
            elif record.facts & SENT_OK:
                note = "undecidable" if last is None else "late"
                yield _finding("unseen", last, sent[:1], [(last, sent[0]["at"], note)])

    def _replaced(self) -> Iterable[tuple[int, int]]:
        for row in self.placed:
            place = (row["slot"], row["offset"])
            readers = [
                each
                for each in self.rows
                if has(each, SEEN_OK) and (each["slot"], each["offset"]) == place
            ]
            if row["slot"] in self.crowded and readers and readers[-1]["key"] != row["key"]:
                yield row["key"], readers[-1]["at"]

    def _cut_off(self) -> Iterable[tuple[int, int]]:
        ends = [row for row in self.rows if has(row, ENDED)]
        told = [row for row in self.rows if has(row, SEEN | SENT_OK) and row["offset"] is not None]
        for rows in _by(told, lambda row: row["key"]):
            slot, place = rows[0]["slot"], min(row["offset"] for row in rows)
            short = [row["offset"] for row in ends if row["slot"] == slot]
            known = self.known.get(slot, set())
            least = min((offset for offset in short if offset is not None), default=_FOREVER)
            if not any(has(row, SEEN) for row in rows):
                continue
            if slot not in self.crowded and (not known or least > max(known)):
                continue
            alive = max(_end(row) if has(row, SEEN) else row["invoke_ns"] for row in rows)
            read = {row["key"] for row in told if has(row, SEEN)}
            since = [row for row in [*told, *ends] if row["slot"] == slot and _time(row) > alive]
            sends = [row for row in since if has(row, SENT_OK) and row["key"] in read]
            first = min(sends, key=lambda row: (row["offset"], row["at"]), default=None)
            asked = [row for row in since if has(row, ENDED)]
            far = [row["offset"] + has(row, SEEN) for row in since if _far(row)]
            if first is not None and first["offset"] <= place:
                yield rows[0]["key"], first["at"]
            elif asked and far and max(far) <= place:
                yield rows[0]["key"], asked[-1]["at"]

    def _row(self, at: int) -> Row:
        return next(row for row in self.rows if row["at"] == at)


def _by(rows: Iterable[Row], of: Callable[[Row], object]) -> list[list[Row]]:
    groups = defaultdict[object, list[Row]](list)
    for row in rows:
        groups[of(row)].append(row)
    return list(groups.values())


def _end(row: Row) -> int:
    return _FOREVER if row["complete_ns"] is None else int(row["complete_ns"])


def _time(row: Row) -> int:
    return _end(row) if has(row, SEEN) else int(row["invoke_ns"])


def _far(row: Row) -> bool:
    return has(row, SEEN | ENDED) and row["offset"] is not None


def _pair(kind: str, sends: list[Row], reads: list[Row]) -> Found:
    return _finding(kind, reads[0]["offset"], [sends[0], reads[0]])


def _finding(
    kind: str,
    offset: int | None,
    steps: Sequence[Row],
    copies: Sequence[Copy] = (),
    fault: int = OF_FIRST,
    subjects: Sequence[tuple[int, int]] = (),
) -> Found:
    ats = tuple(row["at"] for row in steps)
    return (kind, fault, offset, ats, tuple(sorted(subjects)), tuple(sorted(copies, key=repr)))
