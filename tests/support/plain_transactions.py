"""A second model of transactions, in plain Python: to agree with the one that is searched.

Written from docs/model.md and Kafka's sources, with objects, names and queues, where the other has
a vector of bytes. ``survey`` meets every state, level by level.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from highwater.checkers.model.transactions.transaction_rules import TransactionRules
from highwater.checkers.model.transactions.transaction_scope import TransactionScope

PUBLISH, WITHDRAW = "commit", "abort"


@dataclass
class Letter:
    """A request: its kind, what it is about, and the epoch of its sender."""

    kind: str
    about: Any
    epoch: int


@dataclass
class Note:
    """A record as its producer sees it."""

    work: int
    place: int
    epoch: int
    number: int = 0
    state: str = "queued"


@dataclass
class Writer:
    """A producer; ``doing`` is off, opening, idle, open, draining, committing, aborting, dead."""

    doing: str = "off"
    epoch: int = 0
    work: int = 0
    added: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    fenced: bool = False
    upcoming: dict[int, int] = field(default_factory=dict)


@dataclass
class Shelf:
    """A leader: its log of names and markers, and what it knows of the producer."""

    log: list[object] = field(default_factory=list)
    epoch: int | None = None
    last: int | None = None
    recent: list[int] = field(default_factory=list)
    begun: int | None = None
    waiting: tuple[int, int] | None = None


@dataclass
class World:
    """Everything."""

    scope: TransactionScope
    rules: TransactionRules
    state: str = "empty"
    epoch: int = 0
    places: set[int] = field(default_factory=set)
    owed: set[int] = field(default_factory=set)
    works: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    shelves: list[Shelf] = field(default_factory=list)
    ways: dict[tuple[Any, ...], list[Letter]] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, scope: TransactionScope, rules: TransactionRules) -> "World":
        """The first state."""
        world = cls(scope=scope, rules=rules)
        world.writers = [Writer() for _ in range(scope.producers)]
        world.writers[0].doing = "idle"
        world.shelves = [Shelf() for _ in range(scope.partitions)]
        return world

    def key(self) -> str:
        """The same for equal states."""
        ways = sorted((repr(way), repr(letters)) for way, letters in self.ways.items() if letters)
        spent = sorted((name, number) for name, number in self.spent.items() if number)
        parts = (self.state, self.epoch, sorted(self.places), sorted(self.owed), self.works)
        rest = (self.notes, self.writers, self.shelves, ways, spent, sorted(self.refused))
        return repr((parts, rest))

    def copied(self) -> "World":
        """A copy to take a step in."""
        memo = {id(self.scope): self.scope, id(self.rules): self.rules}
        return copy.deepcopy(self, memo)

    def spend(self, name: str) -> bool:
        """Whether the scope has one more of these; it is spent."""
        number, most = self.spent.get(name, 0), int(getattr(self.scope, name))
        self.spent[name] = number + 1
        return number < most

    # The application and its producer.

    def steps(self) -> Iterator[tuple[object, ...]]:
        """Name every step that might be possible."""
        for who in range(len(self.writers)):
            yield from (("begin_work", who), ("commit", who), ("abort", who), ("enter", who))
            yield ("break_off", who, "coordinator")
            for place in range(len(self.shelves)):
                yield from (("write", who, place), ("again", who, place))
                yield ("break_off", who, place)
        for way in list(self.ways):
            if self.ways[way]:
                yield ("deliver", way)
        for place in range(len(self.shelves)):
            yield from (("mark", place), ("mark_twice", place), ("lose_memory", place))
        yield ("expire",)

    def do(self, step: tuple[object, ...]) -> bool:
        """Take a step, if it is possible."""
        name, *rest = step
        if self.scope.in_turn and not self.in_turn(name, rest):
            return False
        return bool(getattr(self, str(name))(*rest))

    def in_turn(self, name: object, rest: list[Any]) -> bool:
        """Whether an application has waited for what it does before this."""
        awaited = [
            letter.kind
            for way, letters in self.ways.items()
            for letter in letters
            if way[-1] == "now" and way[0] != "brokers"
        ]
        if name == "deliver":
            undecided = not self.state.startswith("prepare") and not {"add", "end"} & set(awaited)
            return rest[0][-1] == "now" or undecided
        if name not in ("begin_work", "write", "commit", "abort", "enter", "lose_memory"):
            return True
        if awaited or (name == "write" and any(note.state == "unanswered" for note in self.notes)):
            return False
        doings = [writer.doing for writer in self.writers]
        if name == "enter" and doings[0] != "idle":
            return False
        if name == "begin_work" and rest[0] == 0 and doings[1:] not in ([], ["off"]):
            return False
        needs_end = ("begin_work", "enter", "lose_memory")
        return name not in needs_end or not self.state.startswith("prepare")

    def begin_work(self, who: int) -> bool:
        writer = self.writers[who]
        if writer.doing != "idle" or len(self.works) == self.scope.transactions:
            return False
        self.works.append("open")
        writer.doing, writer.work = "open", len(self.works)
        return True

    def own(self, writer: Writer, place: int | None = None) -> list[Note]:
        """The records of a producer's present transaction, in a partition or in all."""
        return [
            note for note in self.notes if note.work == writer.work and place in (None, note.place)
        ]

    def write(self, who: int, place: int) -> bool:
        writer = self.writers[who]
        if writer.doing != "open" or len(self.notes) == self.scope.records:
            return False
        if not self.notes and place:
            return False
        self.notes.append(Note(work=writer.work, place=place, epoch=writer.epoch))
        if self.rules.adds_by_produce or place in writer.added:
            if all(note.state != "unanswered" for note in self.own(writer, place)):
                self.push(who, place)
        elif place not in writer.asked:
            writer.asked.add(place)
            self.post(who, "coordinator", Letter("add", place, writer.epoch))
        return True

    def post(self, who: int, whom: object, letter: Letter) -> None:
        self.ways.setdefault((who, whom, "now"), []).append(letter)

    def push(self, who: int, place: int) -> None:
        writer = self.writers[who]
        for name, note in enumerate(self.notes):
            if note not in self.own(writer, place) or note.state not in ("queued", "unanswered"):
                continue
            if note.work != writer.work or note.place != place:
                continue
            if note.state == "queued":
                note.number = writer.upcoming.get(place, 0)
                writer.upcoming[place] = note.number + 1
            note.state = "sent"
            self.post(who, place, Letter("produce", name, note.epoch))

    def again(self, who: int, place: int) -> bool:
        writer = self.writers[who]
        states = {note.state for note in self.own(writer, place)}
        if writer.doing not in ("open", "draining") or "unanswered" not in states:
            return False
        self.push(who, place)
        return True

    def commit(self, who: int) -> bool:
        writer = self.writers[who]
        states = [note.state for note in self.own(writer)] if writer.work else []
        if writer.doing != "open" or "acknowledged" not in states:
            return False
        if {"queued", "sent", "unanswered"} & set(states):
            return False
        self.works[writer.work - 1] = "commit asked"
        writer.doing = "committing"
        self.post(who, "coordinator", Letter("end", PUBLISH, writer.epoch))
        return True

    def abort(self, who: int) -> bool:
        writer = self.writers[who]
        if writer.doing != "open" or not self.own(writer):
            return False
        for note in self.own(writer):
            if note.state == "queued":
                note.state = "dropped"
            elif note.state == "unanswered" and self.rules.purges_unanswered:
                note.state = "dropped"
                writer.upcoming[note.place] -= 1
        self.works[writer.work - 1] = "aborted"
        writer.doing = "draining"
        self.drained(who)
        return True

    def drained(self, who: int) -> None:
        writer = self.writers[who]
        if writer.doing == "draining" and not any(
            note.state in ("sent", "unanswered") for note in self.own(writer)
        ):
            writer.doing = "aborting"
            self.post(who, "coordinator", Letter("end", WITHDRAW, writer.epoch))

    def break_off(self, who: int, whom: object) -> bool:
        letters = self.ways.get((who, whom, "now"), [])
        allowed = self.spend("late_controls" if whom == "coordinator" else "late")
        if not letters or not allowed:
            return False
        number = self.spent.get("late", 0) + self.spent.get("late_controls", 0)
        self.ways[who, whom, number] = letters
        self.ways[who, whom, "now"] = copy.deepcopy(letters) if whom == "coordinator" else []
        if whom != "coordinator":
            for letter in letters:
                self.notes[letter.about].state = "unanswered"
        return True

    def enter(self, who: int) -> bool:
        writer = self.writers[who]
        if who == 0 or writer.doing not in ("off", "opening") or self.state.startswith("prepare"):
            return False
        self.writers[0].fenced = True
        if self.state == "ongoing":
            self.cut_off()
            writer.doing = "opening"
            return True
        self.epoch, self.state = self.epoch + 1, "empty"
        writer.doing, writer.epoch = "idle", self.epoch
        return True

    # The brokers.

    def cut_off(self) -> None:
        self.epoch += 2 if self.rules.bumps_epoch else 1
        self.state, self.owed = "prepare abort", set(self.places)

    def expire(self) -> bool:
        if self.state != "ongoing" or not self.spend("expiries"):
            return False
        self.cut_off()
        for writer in self.writers:
            writer.fenced |= writer.doing not in ("off", "opening", "dead")
        return True

    def lose_memory(self, place: int) -> bool:
        shelf = self.shelves[place]
        if shelf.epoch is None or shelf.begun is not None or not self.spend("forgets"):
            return False
        shelf.epoch, shelf.last, shelf.recent = None, None, []
        return True

    def mark_twice(self, place: int) -> bool:
        if not self.state.startswith("prepare") or place not in self.owed:
            return False
        if not self.spend("late_markers"):
            return False
        letter = Letter("marker", (place, self.state.removeprefix("prepare ")), self.epoch)
        self.ways["brokers", self.spent["late_markers"]] = [letter]
        return True

    def mark(self, place: int) -> bool:
        if not self.state.startswith("prepare") or place not in self.owed:
            return False
        word = self.state.removeprefix("prepare ")
        if not self.stamp(place, word, self.epoch):
            return False
        self.owed.discard(place)
        if not self.owed:
            self.state, self.places = f"complete {word}", set()
        return True

    def stamp(self, place: int, word: str, epoch: int) -> bool:
        shelf = self.shelves[place]
        if shelf.epoch is not None:
            known = epoch == shelf.epoch and shelf.begun is not None
            if epoch < shelf.epoch or (known and self.rules.marker_above):
                return False
        shelf.log.append(word)
        if epoch != shelf.epoch:
            shelf.epoch, shelf.last, shelf.recent = epoch, None, []
        shelf.begun, shelf.waiting = None, None
        return True

    def deliver(self, way: tuple[Any, ...]) -> bool:
        letter, awaited = self.ways[way][0], way[-1] == "now"
        bounded = letter.kind == "produce" and not awaited and not self.scope.overdue
        if bounded and self.writers[way[0]].work != self.notes[letter.about].work:
            return False
        if letter.kind == "marker":
            place, word = letter.about
            self.stamp(place, word, letter.epoch)
            self.ways[way].pop(0)
            return True
        if letter.kind == "add":
            answer = self.add(letter.about, letter.epoch)
        elif letter.kind == "end":
            answer = self.end(str(letter.about), letter.epoch)
        else:
            answer = self.append(letter.about)
        if answer == "later":
            if not awaited:
                self.ways[way].pop(0)
            return True
        if answer == "wait" and awaited:
            return False
        self.ways[way].pop(0)
        if awaited:
            self.hear(int(way[0]), letter, answer)
        return True

    def hear(self, who: int, letter: Letter, answer: str) -> None:
        writer = self.writers[who]
        if answer == "no":
            self.die(who)
        elif letter.kind == "add":
            writer.added.add(letter.about)
            writer.asked.discard(letter.about)
            if writer.doing == "open":
                self.push(who, letter.about)
        elif letter.kind == "produce":
            self.notes[letter.about].state = "acknowledged"
            self.drained(who)
        else:
            if writer.doing == "committing":
                self.works[writer.work - 1] = "committed"
            writer.doing, writer.work = "idle", 0
            writer.added, writer.asked = set(), set()
            if self.rules.bumps_epoch:
                writer.epoch, writer.upcoming = self.epoch, {}

    def die(self, who: int) -> None:
        writer = self.writers[who]
        if not writer.fenced:
            self.refused |= {"goes-on", "successor-goes-on"} if who else {"goes-on"}
        if self.works[writer.work - 1] == "open":
            self.works[writer.work - 1] = "aborted"
        for note in self.own(writer):
            if note.state in ("queued", "sent", "unanswered"):
                note.state = "dropped"
        self.writers[who] = Writer(doing="dead")
        for way in [way for way in self.ways if way[0] == who and way[-1] == "now"]:
            self.ways[who, way[1], "closed"] = self.ways.pop(way)

    def add(self, place: int, epoch: int) -> str:
        if epoch != self.epoch:
            return "no"
        if self.state.startswith("prepare"):
            return "wait"
        self.state = "ongoing"
        self.places.add(place)
        return "yes"

    def end(self, word: str, epoch: int) -> str:  # noqa: PLR0911 - one for each case
        retried = False
        if self.rules.bumps_epoch and self.state.startswith(("prepare", "complete")):
            retried = self.epoch == epoch + 1
            if not retried and (self.epoch != epoch or self.state.startswith("prepare")):
                return "no"
        elif epoch != self.epoch:
            return "no"
        if self.state == "ongoing":
            self.state, self.owed = f"prepare {word}", set(self.places)
            self.epoch += self.rules.bumps_epoch
            return "yes" if self.rules.answers_first else "later"
        if self.state.startswith("prepare"):
            return "wait" if self.state.endswith(word) else "no"
        if self.rules.bumps_epoch and not retried:
            if word == PUBLISH:
                return "no"
            self.epoch, self.state = self.epoch + 1, "complete abort"
            return "yes"
        return "yes" if self.state == f"complete {word}" else "no"

    def append(self, name: int) -> str:
        note, shelf = self.notes[name], self.shelves[self.notes[name].place]
        if self.rules.stale_epoch_first and note.epoch < (shelf.epoch or 0):
            return "no"
        ongoing = shelf.begun is not None
        if self.rules.open_in_epoch and note.epoch != shelf.epoch:
            ongoing = False
        if self.rules.verification and not ongoing:
            if self.rules.lowest_sequence and not (
                self.rules.copy_is_not_lowest and self.is_copy(shelf, note)
            ):
                self.line_up(shelf, note)
            answer = self.confirm(note)
            if answer != "yes":
                return answer
        if self.is_copy(shelf, note):
            return "yes"
        if not self.fits(shelf, note):
            return "no"
        if shelf.epoch != note.epoch:
            shelf.epoch, shelf.recent = note.epoch, []
        shelf.last, shelf.waiting = note.number, None
        shelf.recent = [*shelf.recent, note.number][-5:]
        if shelf.begun is None:
            shelf.begun = len(shelf.log)
        shelf.log.append(name)
        return "yes"

    def is_copy(self, shelf: Shelf, note: Note) -> bool:
        known = shelf.recent if self.rules.duplicates_cached else [shelf.last]
        return note.epoch == shelf.epoch and note.number in known

    def line_up(self, shelf: Shelf, note: Note) -> None:
        if shelf.waiting is None or note.epoch > shelf.waiting[0]:
            shelf.waiting = (note.epoch, note.number)
        elif note.epoch == shelf.waiting[0]:
            shelf.waiting = min(shelf.waiting, (note.epoch, note.number))

    def confirm(self, note: Note) -> str:
        if self.rules.adds_by_produce:
            return self.add(note.place, note.epoch)
        if note.epoch != self.epoch:
            return "no"
        if self.state.startswith("prepare"):
            return "wait"
        return "yes" if note.place in self.places else "no"

    def fits(self, shelf: Shelf, note: Note) -> bool:
        if shelf.waiting is not None:
            if note.number > shelf.waiting[1]:
                return False
            if self.rules.first_is_zero and note.number and not shelf.recent:
                return False
        if shelf.epoch is None:
            return note.number == 0 or self.rules.unknown_accepted
        if note.epoch < shelf.epoch:
            return False
        if note.epoch > shelf.epoch or shelf.last is None:
            return note.number == 0
        return note.number == shelf.last + 1

    # What must hold.

    def broken(self) -> set[str]:
        """The promises that do not hold."""
        fates = {name: self.fate(name) for name in range(len(self.notes))}
        found = set(self.refused)
        for name, note in enumerate(self.notes):
            said = self.works[note.work - 1]
            if PUBLISH in fates[name] and said in ("aborted", "open"):
                found.add("aborted-unread" if said == "aborted" else "open-unread")
            if said == "committed" and not {PUBLISH, "undecided"} & set(fates[name]):
                found.add("committed-kept")
            if len(fates[name]) > 1:
                found.add("written-once")
        for number, said in enumerate(self.works, start=1):
            mine = [fates[name] for name, note in enumerate(self.notes) if note.work == number]
            gone = [not {PUBLISH, "undecided"} & set(fate) for fate in mine]
            if said.startswith("commit") and any(PUBLISH in fate for fate in mine) and any(gone):
                found.add("all-or-nothing")
        for place, shelf in enumerate(self.shelves):
            found |= self.broken_log([entry for entry in shelf.log if isinstance(entry, int)])
            awaited = self.owed if self.state.startswith("prepare") else self.places
            if shelf.begun is not None and place not in awaited:
                found.add("ends")
        return found

    def broken_log(self, names: list[int]) -> set[str]:
        found = set[str]()
        runs: list[list[int]] = []
        for name in names:
            if not runs or self.notes[runs[-1][-1]].epoch != self.notes[name].epoch:
                runs.append([])
            runs[-1].append(name)
        for run in runs:
            if [self.notes[name].number for name in run] != list(range(len(run))):
                found.add("gapless")
            if sorted(set(run)) != run:
                found.add("in-order")
        return found

    def fate(self, name: int) -> list[str]:
        log = self.shelves[self.notes[name].place].log
        marked = []
        for offset, entry in enumerate(log):
            if entry == name and isinstance(entry, int):
                after = [word for word in log[offset:] if isinstance(word, str)]
                marked.append(after[0] if after else "undecided")
        return marked


def survey(scope: TransactionScope, rules: TransactionRules) -> tuple[int, int, dict[str, int]]:
    """Meet every state: how many there are, how deep, and when each promise was broken first."""
    first = World.begin(scope, rules)
    seen, frontier, depth = {first.key()}, [first], 0
    broken: dict[str, int] = {}
    while frontier:
        following = []
        for world in frontier:
            for name in world.broken():
                broken.setdefault(name, depth)
            for step in world.steps():
                after = world.copied()
                if after.do(step) and (key := after.key()) not in seen:
                    seen.add(key)
                    following.append(after)
        frontier, depth = following, depth + bool(following)
    return len(seen), depth, broken
