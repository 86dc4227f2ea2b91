"""Add and remove voters of a running KRaft quorum, as ``kafka-metadata-quorum`` does (KIP-853).

A controller answers when the new set of voters is committed.
"""

import contextlib
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import leader_state
from highwater.clusters.admin.voter_messages import VoterRequest
from highwater.clusters.core.addresses import CONTROLLER_LISTENER, Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition

_LIMIT_S: Final = 60.0
_ANSWER_S: Final = 10.0
_DONE: Final = 0
_REFUSED: Final = {35: "this quorum has the voters of its settings", 42: "the request is not valid"}
# The leader says so only when no change of voters is pending: the one before is committed.
_ALREADY_VOTER, _NO_VOTER = 126, 127


def add_voter(
    controllers: Mapping[int, Address], voter: int, directory: UUID, endpoint: Address
) -> None:
    """Add a running controller to the voters; it has to have caught up first.

    Args:
        controllers: controller id to address, for the harness.
        directory: id of its log directory.
        endpoint: address at which the other nodes reach it.

    Raises:
        HarnessError: the quorum has no voters that change.
        WaitTimeoutError: it is not done in time.
    """
    limit_ms = int(_ANSWER_S * 1000)
    request = VoterRequest.add(voter, directory, CONTROLLER_LISTENER, endpoint, limit_ms=limit_ms)
    _ask_leader(controllers, request, _ALREADY_VOTER, f"controller {voter} to be a voter")


def remove_voter(controllers: Mapping[int, Address], voter: int, directory: UUID) -> None:
    """Remove a controller, running or not, from the voters.

    Raises:
        HarnessError: the quorum has no voters that change.
        WaitTimeoutError: it is not done in time.
    """
    request = VoterRequest.remove(voter, directory)
    _ask_leader(controllers, request, _NO_VOTER, f"controller {voter} to be no voter")


def _ask_leader(
    controllers: Mapping[int, Address],
    request: VoterRequest,
    already: int,
    what: str,
) -> None:
    """Send a request to the leader until it is done.

    Args:
        already: the error that says that it had been done before.
    """

    def answer() -> tuple[int, str]:
        leader = leader_state(client, tuple(controllers)).leader_id
        [response] = client.ask(leader, request)
        code = int(response.error_code)
        if code in _REFUSED:
            raise HarnessError(f"Kafka refuses: {response.error_message or _REFUSED[code]}")
        return code, response.error_message or ""

    with contextlib.closing(ProtocolClient(controllers, timeout_s=_ANSWER_S)) as client:
        await_condition(
            answer,
            lambda answered: answered[0] in {_DONE, already},
            what=what,
            limit_s=_LIMIT_S,
            passing=(UnreachableError,),
        )
