"""The level of a broker's software: its jars, protocol version and message format version.

Kafka's upgrade notes change the three in this order, on one broker after another: the jars, then
``inter.broker.protocol.version``, then ``log.message.format.version``. A broker's behaviour depends
on all three: with an old protocol, a new broker truncates its log by the old rule.

On KRaft the protocol is ``metadata.version``, which belongs to the cluster and not to a broker. The
version changes for all brokers at once, with the other features that a new cluster of that release
has (KIP-584).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from highwater.harness.base.errors import UsageError
from highwater.harness.releases.release import Release, Truncation

PROTOCOL: Final = "inter.broker.protocol.version"
FORMAT: Final = "log.message.format.version"
METADATA: Final = "metadata.version"
"""The ``metadata.version`` of a KRaft cluster. In a cluster's settings, this is the version at the
cluster's start."""

_EPOCHS: Final = (0, 11)
_EXACT_EPOCHS: Final = (2,)
_ON_FETCH: Final = (2, 7)
_HW_WITHOUT_EPOCHS: Final = (2, 1)
_FORMATS: Final = (0, 10)
_WORD: Final = re.compile(r"0\.\d+\.\d+|[1-9]\d*\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The software level of a broker.

    Attributes:
        protocol: ``inter.broker.protocol.version``, such as ``0.10.2`` or ``2.8``. On KRaft, the
            release that has this ``metadata.version``.
        format: ``log.message.format.version``, in the form of ``protocol``. Kafka ignores it if the
            protocol is 3.0 or later (KIP-724).
    """

    release: Release
    protocol: str
    format: str

    @classmethod
    def of(cls, release: Release, *, protocol: str = "", format: str = "") -> Self:  # noqa: A002 - Kafka's word
        """Return the release's own level, or a lower level if ``protocol`` or ``format`` is older.

        Args:
            protocol: newest protocol version allowed; empty for the release's own.
            format: newest message format allowed. The result is never newer than the protocol.

        Raises:
            UsageError: the protocol or the format is not a valid version.
        """
        spoken = _older(release.protocol, protocol)
        return cls(release=release, protocol=spoken, format=_older(spoken, format))

    @classmethod
    def from_settings(cls, release: Release, settings: Mapping[str, str]) -> Self:
        """Return the level of a cluster that is started with these settings.

        Raises:
            UsageError: a version in the settings is not valid.
        """
        spoken = METADATA if release.coordination == "kraft" else PROTOCOL
        return cls.of(release, protocol=settings.get(spoken, ""), format=settings.get(FORMAT, ""))

    @property
    def truncation(self) -> Truncation:
        """The rule by which a replica that becomes a follower truncates its log.

        The protocol decides (``ReplicaFetcherThread``). Since 2.1, a replica whose log has no
        leader epochs truncates to the HW at once
        (``AbstractFetcherThread.fetchTruncatingPartitions``). Before 2.1, such a replica sends a
        request to the leader. The response says that the leader has no epochs.
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
        """The settings of a cluster with this level. 0.9 has no setting for the message format."""
        if self.release.coordination == "kraft":
            return {METADATA: self.protocol}
        formats = {FORMAT: self.format} if self.release.number >= _FORMATS else {}
        return {PROTOCOL: self.protocol, **formats}

    def __str__(self) -> str:
        """Return the level as text, for a sentence."""
        if self.release.coordination == "kraft":
            return f"Kafka {self.release.name}, {METADATA} {self.protocol}"
        return f"Kafka {self.release.name}, protocol {self.protocol}, format {self.format}"


_EXACT: Final = Truncation.LEADER_EPOCH_EXACT


def upgrade_levels(
    start: Level,
    releases: Iterable[Release],
    *,
    protocol: str = "",
    format: str = "",  # noqa: A002 - Kafka's word
) -> Iterator[Level]:
    """Yield the levels of an upgrade from release to release, without the start level.

    The message format has a separate step only if the record format changes.

    Args:
        protocol: newest protocol version allowed; empty for no limit.
        format: newest message format allowed; empty for no limit.
    """
    level = start
    for release in releases:
        target = Level.of(release, protocol=protocol, format=format)
        same_format = _magic(level.format) == _magic(target.format)
        steps = (
            replace(level, release=release),
            replace(target, format=target.format if same_format else level.format),
            target,
        )
        for step in steps:
            if step != level:
                yield step
            level = step


def numbers(version: str) -> tuple[int, ...]:
    """Return a version of a protocol or a format as numbers: ``0.10.2`` -> ``(0, 10, 2)``.

    Raises:
        UsageError: the text is not a version.
    """
    if not _WORD.fullmatch(version):
        raise UsageError(
            f"{version!r} is not a version of a protocol or a message format",
            hint="Write a version, such as 0.10.2, 0.11.0, 1.1 or 2.8.",
        )
    return tuple(int(part) for part in version.split("."))


def _older(version: str, limit: str) -> str:
    return min(version, limit, key=numbers) if limit else version


def _magic(version: str) -> int:
    """Return the record format (magic 0, 1 or 2) for a message format version."""
    return sum(numbers(version) >= since for since in (_FORMATS, _EPOCHS))
