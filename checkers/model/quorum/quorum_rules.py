"""The rules of KRaft's quorum by release."""

from dataclasses import dataclass, fields
from typing import Final

from highwater.checkers.model.protocol.rules_by_release import switch_field
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest_release
from highwater.harness.releases.catalogue import CATALOGUE

QUORUM_RELEASES: Final = tuple(
    name for name, release in CATALOGUE.items() if release.coordination == "kraft"
)
"""Every catalogued release with KRaft."""

_DYNAMIC: Final = (3, 9)
"""The first release with kraft.version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRules:
    """The rules of one release."""

    directory_ids: bool = switch_field(
        "The log has the voter set, and a voter is a node with a directory id (kraft.version 1). "
        "Without this rule, the configuration has the voters' node ids, and an empty disk votes.",
        "KIP-853; VoterSet, RaftUtil.voteRequestVoterKey (3.9)",
    )
    own_epoch_commits: bool = switch_field(
        "A leader commits nothing before an entry of its own epoch is on a majority.",
        "KIP-595; LeaderState.maybeUpdateHighWatermark",
    )
    change_after_commit: bool = switch_field(
        "A leader changes the voter set only after it has committed an entry of its own epoch.",
        "KIP-853; AddVoterHandler, RemoveVoterHandler (3.9)",
    )
    one_change: bool = switch_field(
        "A leader changes the voter set only after the change before is committed.",
        "KIP-853; AddVoterHandler, RemoveVoterHandler (3.9)",
    )


QUORUM_SWITCHES: Final = tuple(switch.name for switch in fields(QuorumRules))


def quorum_rules_of(kafka: str) -> QuorumRules:
    """Return the rules of a catalogued release; raise a UsageError if it has no KRaft."""
    if kafka not in QUORUM_RELEASES:
        raise UsageError(
            f"the model knows no quorum of Kafka release {kafka!r}",
            hint=nearest_release(kafka, QUORUM_RELEASES),
        )
    dynamic = CATALOGUE[kafka].number >= _DYNAMIC
    return QuorumRules(
        directory_ids=dynamic,
        own_epoch_commits=True,
        change_after_commit=dynamic,
        one_change=dynamic,
    )
