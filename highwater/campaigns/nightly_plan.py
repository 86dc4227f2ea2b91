"""Choose the cells of a night and their machines, from the date and from earlier nights.

First come the cells that failed in their last run, with the same seed. Then come the canaries,
which must lose records, and ``BASELINE`` (two stories) on every release. Other settings fill the
remaining time: those with the oldest last run first, and the date decides among equals.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from statistics import median
from typing import Final

from msgspec.structs import replace

from highwater.clusters.drivers import DRIVERS, find_driver
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.campaigns.matrix_cells import delivery_of
from highwater.harness.campaigns.nightly_cells import (
    NEMESIS_S,
    CellResult,
    Job,
    Night,
    NightlyCell,
    PlannedCell,
    Why,
    canaries,
    fields,
)
from highwater.harness.releases.catalogue import CATALOGUE, Release, release
from highwater.harness.runs.plan import Acks
from highwater.harness.runs.steps import current_fault
from highwater.nemesis.faults.registry import NO_GROUPS, OF_MACHINE, faults, find_fault
from highwater.nemesis.stories.registry import STORIES

STORY_S: Final = 25.0
RANDOM_S: Final = NEMESIS_S + 25.0
"""The estimated seconds to perform and judge a cell (a planned run) that was never measured, on an
idle machine."""

BOOT_S: Final = 30.0
"""The seconds in which each part of a job starts brokers and Spark."""

BASELINE: Final = ("loss", "divergence")
CANARY_SEEDS: Final = 2
"""The number of runs of each canary (a story that must lose records). One run may be ``unknown``
because its story missed the HW-lag window. With two drivers, each driver has one run."""

PIECES: Final = 4
"""The least number of parts in each machine's work, so that all machines get about equal work."""

SHORTEST_S: Final = 300.0
"""The shortest part of a job, in seconds, because Spark needs time to start."""

LAPS: Final = 100
"""The greatest number of seeds that a nightly run uses."""

Piece = list[PlannedCell]
"""Cells (planned runs) of one release on one driver, which share running clusters."""

_ACKS: Final[tuple[Acks, ...]] = ("0", "1", "all")


def seed(night: date, lap: int = 0) -> int:
    """Return a seed that contains the night's date and ``lap``: 2026112100, 2026112101 and so on.

    All settings of a lap share the seed, so every release gets the same random schedule.
    """
    return int(f"{night:%Y%m%d}") * 100 + lap


class CellDurations:
    """Estimates the duration of a cell from the durations of similar cells in earlier nights."""

    def __init__(self, marks: Iterable[CellResult]) -> None:
        measured: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        for mark in marks:
            if mark.seconds is not None:
                for likeness in _likenesses(mark):
                    measured[likeness].append(mark.seconds)
        self._medians = {likeness: median(times) for likeness, times in measured.items()}

    def seconds(self, cell: NightlyCell) -> float:
        """Return a cell's estimated seconds: the median of similar cells, or else a constant."""
        medians = map(self._medians.get, _likenesses(cell))
        return next(filter(None, medians), STORY_S if cell.story else RANDOM_S)


def _likenesses(cell: NightlyCell) -> tuple[tuple[str, ...], ...]:
    return (cell.key,), (cell.kafka, cell.driver, cell.happened), (cell.driver, cell.happened)


def newest() -> str:
    """Return the newest release of the catalogue."""
    return max(CATALOGUE.values(), key=lambda entry: entry.number).name


def find_releases(names: Sequence[str]) -> list[Release]:
    """Return the releases of these names; ``all`` is the whole catalogue."""
    if not names:
        raise UsageError("no release is named", hint="Name some with --kafka, or all.")
    return list(CATALOGUE.values()) if names == ("all",) else [release(name) for name in names]


def find_drivers(names: Sequence[str]) -> list[str]:
    """Return the cluster drivers of these names."""
    for name in names:
        find_driver(name)
    if not names:
        raise UsageError("no cluster driver is named", hint=nearest("", DRIVERS))
    return list(names)


def plan_night(
    night: date,
    *,
    releases: Sequence[Release],
    drivers: Sequence[str],
    marks: Sequence[CellResult] = (),
    jobs: int = 8,
    minutes: float = 70,
) -> Night:
    """Choose a night's cells, and distribute them over machines.

    Canaries and the baseline are always included, even in a short time; repeated failures take at
    most half of the time, so that one bad night does not fill the next.

    Args:
        releases: releases of the random cells; the canaries' releases are always included.
        marks: results of earlier nights, oldest first.
    """
    clock = CellDurations(marks)
    room = jobs * minutes * 60
    chosen: dict[tuple[str, int], PlannedCell] = {}

    def add(cells: Iterable[NightlyCell], why: Why, limit: float = float("inf")) -> None:
        spent = sum(cell.seconds for cell in chosen.values())
        for cell in cells:
            seconds = clock.seconds(cell)
            if spent + seconds > limit:
                return
            if cell.identity not in chosen:
                chosen[cell.identity] = PlannedCell(**fields(cell), why=why, seconds=seconds)
                spent += seconds

    add(_failed(marks, releases, drivers), "failed", room / 2)
    add(_canaries(night, drivers), "canary")
    add(_baseline(night, releases, drivers), "baseline")
    boots = len({(cell.kafka, cell.driver) for cell in chosen.values()}) + jobs * PIECES
    add(_random_cells(night, releases, drivers, marks), "drawn", room - boots * BOOT_S)
    return Night(night=night.isoformat(), jobs=_deal(list(chosen.values()), jobs))


def _failed(
    marks: Sequence[CellResult], releases: Sequence[Release], drivers: Sequence[str]
) -> Iterator[NightlyCell]:
    last: dict[str, list[CellResult]] = {}
    for mark in marks:
        seen = last.get(mark.key)
        last[mark.key] = [*seen, mark] if seen and seen[0].night == mark.night else [mark]
    names = {entry.name for entry in releases}
    for mark in (mark for group in last.values() for mark in group if mark.troubled):
        words = (mark.nemesis or "").split(",")
        exists = (
            mark.story in STORIES if mark.story else {*map(current_fault, words)} <= {*faults()}
        )
        if mark.kafka in names and mark.driver in drivers and exists:
            yield NightlyCell(**fields(mark))


def _canaries(night: date, drivers: Sequence[str]) -> Iterator[NightlyCell]:
    for canary in canaries(newest()):
        names = _drivers(CATALOGUE[canary.kafka], drivers)
        for lap in range(CANARY_SEEDS):
            yield NightlyCell(
                kafka=canary.kafka,
                driver=_turn(night, names, lap),
                story=canary.story,
                acks=canary.acks,
                unclean=canary.unclean,
                seed=seed(night, lap),
            )


def _baseline(
    night: date, releases: Sequence[Release], drivers: Sequence[str]
) -> Iterator[NightlyCell]:
    """Yield the first two stories on every release; the driver alternates from night to night."""
    for number, entry in enumerate(releases):
        driver = _turn(night, _drivers(entry, drivers), number)
        for story in BASELINE:
            yield NightlyCell(kafka=entry.name, driver=driver, story=story, seed=seed(night))


def _random_cells(
    night: date, releases: Sequence[Release], drivers: Sequence[str], marks: Sequence[CellResult]
) -> Iterator[NightlyCell]:
    """Yield every setting, those with the oldest last run first; then repeat with other seeds."""
    ran = {mark.key: mark.night for mark in marks}
    dice = random.Random(seed(night))  # noqa: S311 - a draw that can be repeated, no secret
    all_settings = tuple(settings())
    possible = [
        replace(setting, kafka=entry.name, driver=driver)
        for entry in releases
        for driver in _drivers(entry, drivers)
        for setting in all_settings
        if can_be_had(setting, entry, driver)
    ]
    for lap in range(LAPS):
        cells = [replace(cell, seed=seed(night, lap)) for cell in possible]
        dice.shuffle(cells)
        yield from sorted(cells, key=lambda cell: ran.get(cell.key, ""))


def settings() -> Iterator[NightlyCell]:
    """Yield every setting that a night can draw, without its ``kafka``, ``driver`` and ``seed``.

    The combinations are limited, so that a week suffices for all settings. A story runs with every
    value of acks if the model predicts it and it needs no special program of the machine. Other
    stories run with acks=all. Faults of machines and topics, and faults with needs, run with
    acks=all and min.insync.replicas=2.
    """
    for name, story in STORIES.items():
        for unclean in (False, True) if name == "unclean" else (False,):
            every = story.script and not story.needs.machine
            for acks in _ACKS if every else ("all",):
                yield NightlyCell(
                    kafka="",
                    story=name,
                    acks=acks,
                    unclean=unclean,
                    client=story.needs.client,
                    delivery=delivery_of(story.plan(newest()).workload),
                )
    for nemesis in mixes():
        fault = find_fault(nemesis.partition(",")[0])
        few = fault.family in ("machine", "topic_config") or bool(fault.needs)
        for min_isr in (2,) if few else (1, 2):
            for acks in _ACKS[2:] if few else _ACKS[1:]:
                yield NightlyCell(kafka="", nemesis=nemesis, acks=acks, min_isr=min_isr)
    yield NightlyCell(kafka="", nemesis=mixes()[0], unclean=True)


def mixes() -> tuple[str, ...]:
    """Return the sets of faults for random runs, such as ``kill,pause,stop``.

    The faults of a set have the same family, the same needs, and work on the same releases and
    drivers. Faults that need an option are only in ``highwater soak``.
    """
    alike: dict[tuple[str, str, frozenset[tuple[str, str]]], list[str]] = {}
    needs = {"", NO_GROUPS, *OF_MACHINE}
    for fault in (fault for fault in faults().values() if fault.needs in needs):
        where = frozenset(
            (kafka.name, driver)
            for kafka in CATALOGUE.values()
            for driver in kafka.drivers
            if not fault.why_not(kafka, driver)
        )
        alike.setdefault((fault.family, fault.needs, where), []).append(fault.name)
    return tuple(",".join(names) for names in alike.values())


def can_be_had(setting: NightlyCell, kafka: Release, driver: str) -> bool:
    """Return whether a release and a driver support a setting's story or all its faults."""
    if setting.story:
        story = STORIES[setting.story]
        lacks = story.needs.idempotence and not kafka.idempotence
        elsewhere = (story.needs.tiered or story.needs.log_dirs > 1) and driver != "local"
        elsewhere |= bool(OF_MACHINE.get(story.needs.machine, str)())
        return not (lacks or elsewhere or story.why_not(kafka))
    names = (setting.nemesis or "").split(",")
    chosen = [find_fault(name) for name in names]
    return not any(
        fault.why_not(kafka, driver) or OF_MACHINE.get(fault.needs, str)() for fault in chosen
    )


def _drivers(release: Release, names: Sequence[str]) -> list[str]:
    """Return the drivers in ``names`` that a release supports, or else the release's first one."""
    return [name for name in names if name in release.drivers] or list(release.drivers[:1])


def _turn(night: date, names: Sequence[str], offset: int = 0) -> str:
    return names[(night.toordinal() + offset) % len(names)]


def _deal(cells: Sequence[PlannedCell], count: int) -> tuple[Job, ...]:
    """Distribute groups of cells over machines, longest first, each to the least busy machine."""
    share = sum(cell.seconds for cell in cells) / count
    hands: list[list[Piece]] = [[] for _ in range(count)]
    most = max(SHORTEST_S, share / PIECES)
    for piece in sorted(_pieces(cells, most), key=_length, reverse=True):
        min(hands, key=lambda hand: sum(map(_length, hand))).append(piece)
    return tuple(
        Job(
            name=f"job-{number}",
            seconds=sum(map(_length, hand)),
            pieces=tuple(map(tuple, sorted(hand, key=_urgency))),
        )
        for number, hand in enumerate(filter(None, hands), start=1)
    )


def _pieces(cells: Sequence[PlannedCell], most: float) -> Iterator[Piece]:
    """Yield groups of cells by release and driver, failed cells apart; split long groups."""
    groups: defaultdict[tuple[str, str, bool], Piece] = defaultdict(list)
    for cell in cells:
        groups[cell.kafka, cell.driver, cell.why == "failed"].append(cell)
    for group in groups.values():
        ordered = sorted(group, key=lambda cell: (cell.happened, cell.under, cell.seed))
        size = math.ceil(len(group) / max(1, math.ceil(sum(c.seconds for c in group) / most)))
        yield from (ordered[at : at + size] for at in range(0, len(ordered), size))


def _length(piece: Piece) -> float:
    return BOOT_S + sum(cell.seconds for cell in piece)


def _urgency(piece: Piece) -> int:
    """Return a group's sort key: failed cells come first, then canaries, then all others."""
    order: tuple[Why, ...] = ("failed", "canary", "baseline", "drawn")
    return min(order.index(cell.why) for cell in piece)
