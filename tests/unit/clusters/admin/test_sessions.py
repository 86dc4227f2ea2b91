"""Heartbeats in place of a KRaft broker: their bytes, and where they go."""

import struct
from types import SimpleNamespace

import pytest

from highwater.clusters.admin import sessions
from highwater.clusters.admin.kafka_protocol import Request
from highwater.clusters.admin.sessions import HeartbeatRequest, send_heartbeat
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError

CONTROLLERS = {id_: Address(host="127.0.0.5", port=id_) for id_ in (100, 101)}
STALE_BROKER_EPOCH = 77


class Quorum:
    """A client of controllers: 101 leads, and answers each heartbeat with an error code."""

    def __init__(self, error: int) -> None:
        self.error = error
        self.beats: list[tuple[int, HeartbeatRequest]] = []

    def ask(self, node: int, request: Request) -> list[object]:
        if isinstance(request, HeartbeatRequest):
            self.beats.append((node, request))
            return [self.error]
        state = SimpleNamespace(error_code=0 if node == 101 else 6, leader_id=101, leader_epoch=4)
        return [SimpleNamespace(topics=[SimpleNamespace(partitions=[state])])]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("fence", [False, True])
def test_a_heartbeat_has_the_fields_of_kip_631(*, fence: bool) -> None:
    request = HeartbeatRequest.of(3, 12, fence=fence)
    assert request.encode(header=False) == struct.pack(">iqqbbb", 3, 12, 12, fence, 0, 0)
    assert (request.key, request.API_VERSION) == (63, 0)
    frame = struct.pack(">ibihbbbb", 9, 0, 0, STALE_BROKER_EPOCH, 0, 1, 0, 0)
    assert request.answer(frame) == STALE_BROKER_EPOCH


@pytest.mark.parametrize("error", [0, STALE_BROKER_EPOCH])
def test_a_heartbeat_goes_to_the_active_controller(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    quorum = Quorum(error)
    monkeypatch.setattr(sessions, "ProtocolClient", lambda *_, **__: quorum)
    if error:
        with pytest.raises(UnreachableError, match="refuses a heartbeat of broker 3: error 77"):
            send_heartbeat(CONTROLLERS, 3, 12, fence=False)
    else:
        send_heartbeat(CONTROLLERS, 3, 12, fence=False)
    [(node, request)] = quorum.beats
    assert (node, request.body) == (101, HeartbeatRequest.of(3, 12, fence=False).body)
