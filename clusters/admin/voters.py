"""Add and remove voters of a running KRaft quorum, as ``kafka-metadata-quorum`` does (KIP-853).

The quorum's leader responds after the new set of voters is committed. kafka-python does not have
AddRaftVoter and RemoveRaftVoter. Both requests have version 0 and no cluster id, and identify a
voter by its node id and its directory id. Both responses have the same fields.
"""

import contextlib
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from kafka.protocol.schemas.fields.codecs import String

from highwater.clusters.admin.flexible_request import NOTHING, FlexibleRequest
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import leader_state
from highwater.clusters.core.addresses import CONTROLLER_LISTENER, Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition

_LIMIT_S: Final = 60.0
_ANSWER_S: Final = 10.0
_DONE: Final = 0
_REFUSED: Final = {35: "the voters of this quorum are fixed", 42: "the request is not valid"}
# The leader returns these errors only if the last change of voters is committed.
_ALREADY_VOTER, _NO_VOTER = 126, 127
_ONE_ENTRY: Final = b"\2"
"""The byte for a compact array of length 1: the format adds one to the length."""

_TEXT: Final = String("utf-8")
_VOTER: Final = struct.Struct(">i16s")
_ANSWER: Final = struct.Struct(">i x i h")
"""The fields of a response: correlation id, no tagged fields, throttle time in milliseconds, error
code."""


@dataclass(slots=True, kw_only=True)
class VoterRequest(FlexibleRequest):
    """A request to add or to remove a voter."""

    @classmethod
    def add(cls, voter: int, directory: UUID, listener: str, at: Address, *, limit_ms: int) -> Self:
        """Return a request to add a voter that listens at ``at``.

        Kafka responds within ``limit_ms``.
        """
        place = (
            _TEXT.encode(listener, compact=True)
            + _TEXT.encode(at.host, compact=True)
            + struct.pack(">H", at.port)
            + NOTHING
        )
        fields = struct.pack(">i", limit_ms) + _VOTER.pack(voter, directory.bytes)
        body = NOTHING + fields + _ONE_ENTRY + place + NOTHING
        return cls(name="AddRaftVoterRequest", key=80, body=body)

    @classmethod
    def remove(cls, voter: int, directory: UUID) -> Self:
        """Return a request to remove a voter."""
        body = NOTHING + _VOTER.pack(voter, directory.bytes) + NOTHING
        return cls(name="RemoveRaftVoterRequest", key=81, body=body)

    def answer(self, frame: bytes) -> "VoterResponse":
        """Decode the response from a frame without its length."""
        return VoterResponse.decode(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterResponse:
    """The response to a request to add or to remove a voter."""

    error_code: int
    error_message: str | None

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode a response from a frame without its length."""
        _, _, error_code = _ANSWER.unpack_from(frame)
        message = _TEXT.decode(io.BytesIO(frame[_ANSWER.size :]), compact=True)
        return cls(error_code=error_code, error_message=message)


def add_voter(
    controllers: Mapping[int, Address], voter: int, directory: UUID, endpoint: Address
) -> None:
    """Add a running controller to the voters.

    The controller must first have the complete log of the leader.

    Args:
        controllers: controller id to the address at which the harness reaches that controller.
        directory: id of the new voter's log directory.
        endpoint: address at which other nodes reach the new voter.

    Raises:
        HarnessError: the quorum's voters are fixed.
        WaitTimeoutError: the controller did not become a voter in time.
    """
    limit_ms = int(_ANSWER_S * 1000)
    request = VoterRequest.add(voter, directory, CONTROLLER_LISTENER, endpoint, limit_ms=limit_ms)
    _ask_leader(controllers, request, _ALREADY_VOTER, f"controller {voter} to become a voter")


def remove_voter(controllers: Mapping[int, Address], voter: int, directory: UUID) -> None:
    """Remove a controller, running or not, from the voters.

    Raises:
        HarnessError: the quorum's voters are fixed.
        WaitTimeoutError: the controller is still a voter after the limit.
    """
    request = VoterRequest.remove(voter, directory)
    _ask_leader(controllers, request, _NO_VOTER, f"controller {voter} to stop being a voter")


def _ask_leader(
    controllers: Mapping[int, Address],
    request: VoterRequest,
    already: int,
    what: str,
) -> None:
    """Send a request to the quorum's leader until the leader has executed it.

    Args:
        already: the error code for a change that an earlier attempt has already made.
        what: the awaited condition in words, for the error message.
    """

    def answer() -> tuple[int, str]:
        leader = leader_state(client, tuple(controllers)).leader_id
        [response] = client.ask(leader, request)
        code = int(response.error_code)
        if code in _REFUSED:
            raise HarnessError(
                f"Kafka refuses to change voters: {response.error_message or _REFUSED[code]}"
            )
        return code, response.error_message or ""

    with contextlib.closing(ProtocolClient(controllers, timeout_s=_ANSWER_S)) as client:
        await_condition(
            answer,
            lambda answered: answered[0] in {_DONE, already},
            what=what,
            limit_s=_LIMIT_S,
            passing=(UnreachableError,),
        )
