"""The group settings of a consumer that is a member of a group."""

from dataclasses import dataclass

from highwater.harness.clients.client_config import REPORTED, Settings
from highwater.harness.releases.group_protocols import CLASSIC


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembership:
    """The membership of a consumer in a group.

    Attributes:
        group: the group's name.
        reset: ``auto.offset.reset``, as in an application's consumer. By default the harness
            requests the consumer's first offsets.
        protocol: the group's protocol: ``classic`` or ``consumer`` (KIP-848).
        refresh_s: seconds between the consumer's metadata requests
            (``topic.metadata.refresh.interval.ms``); None for a short default.
        commits_every_s: ``auto.commit.interval.ms``, if the client commits by itself
            (``enable.auto.commit``) and also chooses its first offsets. None if the harness commits
            the offsets that the member has read.
    """

    group: str
    reset: str = REPORTED
    protocol: str = CLASSIC
    refresh_s: float | None = None
    commits_every_s: float | None = None

    def settings(self) -> Settings:
        """Return the settings for ``refresh_s`` and ``commits_every_s``."""
        settings: Settings = {}
        if self.refresh_s is not None:
            settings |= {"topic.metadata.refresh.interval.ms": int(self.refresh_s * 1000)}
        if self.commits_every_s is not None:
            every_ms = int(self.commits_every_s * 1000)
            settings |= {"enable.auto.commit": True, "auto.commit.interval.ms": every_ms}
        return settings
