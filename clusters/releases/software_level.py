"""What a broker runs: its jars, the protocol it speaks, the message format it writes.

An upgrade raises them one after the other, each broker by broker: first the jars, then
``inter.broker.protocol.version``, then ``log.message.format.version`` (Kafka's upgrade notes). What
a release does depends on all three: one that speaks an old protocol cuts its log as of old.

On KRaft the protocol is ``metadata.version``, which the cluster has and not each broker: it is
raised for all at once, with the other features that a new cluster of that release has (KIP-584).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from highwater.clusters.releases.release import Release, Truncation
from highwater.harness.base.errors import UsageError

PROTOCOL: Final = "inter.broker.protocol.version"
FORMAT: Final = "log.message.format.version"
METADATA: Final = "metadata.version"
"""Feature of a KRaft cluster; among a cluster's settings it says with which one to begin."""

_EPOCHS: Final = (0, 11)
_EXACT_EPOCHS: Final = (2,)
_ON_FETCH: Final = (2, 7)
_HW_WITHOUT_EPOCHS: Final = (2, 1)
_FORMATS: Final = (0, 10)
_WORD: Final = re.compile(r"0\.\d+\.\d+|[1-9]\d*\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a broker runs.

    Attributes:
        release: whose jars.
        protocol: ``inter.broker.protocol.version``, such as ``0.10.2`` or ``2.8``; on KRaft the
            release that has this ``metadata.version``.
        format: ``log.message.format.version``, in the same words; Kafka ignores it where the
            protocol is 3.0 or later (KIP-724).
    """

    release: Release
    protocol: str
    format: str

    @classmethod
    def of(cls, release: Release, *, protocol: str = "", format: str = "") -> Self:  # noqa: A002 - Kafka's word
        """A release's own level, or one below it.

        Args:
            protocol: the newest that it may speak; its own, if that is older.
            format: the newest that it may write; no newer than the protocol in any case.

        Raises:
            UsageError: one of them is no version of a protocol.
        """
        spoken = _older(release.protocol, protocol)
        return cls(release=release, protocol=spoken, format=_older(spoken, format))

    @classmethod
    def from_settings(cls, release: Release, settings: Mapping[str, str]) -> Self:
        """The level of a cluster that is started with these settings.

        Raises:
            UsageError: as ``of`` does.
        """
        spoken = METADATA if release.coordination == "kraft" else PROTOCOL
        return cls.of(release, protocol=settings.get(spoken, ""), format=settings.get(FORMAT, ""))

    @property
    def truncation(self) -> Truncation:
        """How a replica that becomes a follower decides where to cut its log.

        ``ReplicaFetcherThread`` of each release asks the protocol, and from 2.1 on the log whether
        it has epochs (``AbstractFetcherThread.fetchTruncatingPartitions``): without them the HW
        decides at once. Before, the leader is asked all the same, and says that it has none.
        """
        spoken, written = numbers(self.protocol), numbers(self.format)
        no_epochs = written < _EPOCHS and self.release.number >= _HW_WITHOUT_EPOCHS
        if spoken < _EPOCHS or no_epochs:
            return Truncation.HIGH_WATERMARK
        steps = [(_EXACT_EPOCHS, Truncation.LEADER_EPOCH), (_ON_FETCH, _EXACT)]
        rule = next((rule for below, rule in steps if spoken < below), Truncation.ON_FETCH)
        order = list(Truncation)
        return min(rule, self.release.truncation, key=order.index)

    @property
    def settings(self) -> dict[str, str]:
        """It as a cluster's settings; 0.9 has but one message format and no setting for it."""
        if self.release.coordination == "kraft":
            return {METADATA: self.protocol}
        formats = {FORMAT: self.format} if self.release.number >= _FORMATS else {}
        return {PROTOCOL: self.protocol, **formats}

    def __str__(self) -> str:
        """It in words, for a sentence."""
        if self.release.coordination == "kraft":
            return f"Kafka {self.release.name}, {METADATA} {self.protocol}"
        return f"Kafka {self.release.name}, protocol {self.protocol}, format {self.format}"


_EXACT: Final = Truncation.LEADER_EPOCH_EXACT


def upgrade_levels(
    start: Level,
    to: Iterable[Release],
    *,
    protocol: str = "",
    format: str = "",  # noqa: A002 - Kafka's word
) -> Iterator[Level]:
    """The levels of an upgrade from release to release, the first left out.

    The message format is raised in a step of its own only where records are written otherwise.

    Args:
        protocol: the newest that may be spoken.
        format: the newest that may be written.
    """
    level = start
    for release in to:
        goal = Level.of(release, protocol=protocol, format=format)
        same = _magic(level.format) == _magic(goal.format)
        steps = (
            replace(level, release=release),
            replace(goal, format=goal.format if same else level.format),
            goal,
        )
        for step in steps:
            if step != level:
                yield step
            level = step


def numbers(version: str) -> tuple[int, ...]:
    """A protocol's or a format's version as numbers, for comparison.

    Raises:
        UsageError: it is none.
    """
    if not _WORD.fullmatch(version):
        raise UsageError(
            f"{version!r} is no version of a protocol or a message format",
            hint="Write it as Kafka does: 0.10.2, 0.11.0, 1.1 or 2.8.",
        )
    return tuple(int(part) for part in version.split("."))


def _older(version: str, limit: str) -> str:
    return min(version, limit, key=numbers) if limit else version


def _magic(version: str) -> int:
    """The record format that a version of the message format stands for."""
    return sum(numbers(version) >= since for since in (_FORMATS, _EPOCHS))
