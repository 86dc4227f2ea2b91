"""The membership of a consumer in a group."""

from dataclasses import dataclass

from highwater.harness.clients.client_config import REPORTED, Settings
from highwater.harness.runs.group_protocols import CLASSIC


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembership:
    """The membership of a consumer in a group.

    Attributes:
        group: its name.
        reset: ``auto.offset.reset`` of an application's consumer; by default it starts where it
            looked up itself.
        protocol: of the group: ``classic`` or ``consumer`` (KIP-848).
        refresh_s: after so long it looks anew which partitions there are
            (``topic.metadata.refresh.interval.ms``); None: often.
    """

    group: str
    reset: str = REPORTED
    protocol: str = CLASSIC
    refresh_s: float | None = None

    def settings(self) -> Settings:
        """Return the settings in which such a member differs from other consumers."""
        if self.refresh_s is None:
            return {}
        return {"topic.metadata.refresh.interval.ms": int(self.refresh_s * 1000)}
