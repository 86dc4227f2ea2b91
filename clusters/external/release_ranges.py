"""The releases that a broker may have, according to its supported features.

No response of a broker contains its release. On KRaft, the newest supported metadata.version
increases with each minor release. On ZooKeeper, the newest version of Fetch increases with most
minor releases. Patch releases such as 4.0.0, 4.0.1 and 4.0.2 do not differ.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from highwater.clusters.external.identity import FETCH
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.cluster_facts import (
    METADATA,
    METADATA_FEATURE,
    ReleaseRange,
    numbers,
    successor,
)

_END: Final = (99,)
_FETCH_KEY: Final = 1
_LAST_ON_ZOOKEEPER: Final = (3, 9)


def release_range(apis: Mapping[int, int], features: Mapping[str, int]) -> ReleaseRange | None:
    """Return the releases that a broker may have. None if it may not be Apache Kafka.

    Args:
        apis: API key to the newest supported version of that API.
        features: name of a supported feature to its newest supported level.
    """
    level = features.get(METADATA_FEATURE, 0)
    if level in METADATA:
        return ReleaseRange(first=METADATA[level], below=successor(METADATA[level]))
    if level >= min(METADATA):
        older = [line for version, line in METADATA.items() if version < level]
        newer = [line for version, line in METADATA.items() if version > level]
        return ReleaseRange(first=max(older), below=min(newer, default=None))
    fetch = apis.get(_FETCH_KEY, -1)
    older = [line for version, line in FETCH.items() if version <= fetch]
    newer = [line for version, line in FETCH.items() if version > fetch]
    first, below = max(older, default=(0,)), min(newer, default=None)
    if below is None or first > _LAST_ON_ZOOKEEPER:
        return None
    return ReleaseRange(
        first=first, below=successor(first) if first == _LAST_ON_ZOOKEEPER else below
    )


def at_least(release: ReleaseRange | None, protocol: str) -> ReleaseRange | None:
    """Return the releases in a range that support a protocol version, such as ``2.8-IV1``."""
    spoken = numbers(protocol)
    if release is None or release.first >= spoken or (release.below or _END) <= spoken:
        return release
    return replace(release, first=spoken)


def named_release(text: str) -> ReleaseRange:
    """Return the release that a user names. It need not be in the catalogue.

    Raises:
        UsageError: the text is not a version.
    """
    number = numbers(text)
    if len(number) < 3:  # noqa: PLR2004 - Kafka's versions have at least three parts
        raise UsageError(f"--kafka {text!r} is not a release", hint="Write, for example, 4.0.2.")
    return ReleaseRange(first=number, below=None, exact=True)
