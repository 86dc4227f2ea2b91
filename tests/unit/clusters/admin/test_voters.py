"""Voters of a quorum are added and removed: the requests, and how long they are repeated."""

import itertools
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from uuid import UUID

import pytest

from highwater.clusters.admin import voters
from highwater.clusters.admin.kafka_protocol import Request
from highwater.clusters.admin.voters import VoterResponse
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError

CONTROLLERS = {id_: Address(host="127.0.0.5", port=id_) for id_ in (100, 101, 102)}
DIRECTORY = UUID(int=7)
DONE, NOT_LEADER, TIMED_OUT, UNSUPPORTED, DUPLICATE, NOT_FOUND = 0, 6, 7, 35, 126, 127


class Quorum:
    """A client of controllers: 101 leads, and answers with these errors, one after the other."""

    def __init__(self, errors: Iterator[int | None]) -> None:
        self.errors = errors
        self.requests: list[tuple[int, Request]] = []

    def ask(self, node: int, request: Request) -> list[object]:
        if request.name == "DescribeQuorumRequest":
            state = SimpleNamespace(error_code=0 if node == 101 else NOT_LEADER, leader_id=101)
            state.leader_epoch = 4
            return [SimpleNamespace(topics=[SimpleNamespace(partitions=[state])])]
        self.requests.append((node, request))
        if (error := next(self.errors)) is None:
            raise UnreachableError("it does not answer")
        return [SimpleNamespace(error_code=error, error_message=None)]

    def close(self) -> None:
        pass


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    made = Quorum(iter(()))

    def client(addresses: Mapping[int, Address], *, timeout_s: float) -> Quorum:
        assert addresses is CONTROLLERS
        assert timeout_s > 0
        return made

    monkeypatch.setattr(voters, "ProtocolClient", client)
    return made


def bytes_of(request: Request) -> bytes:
    request.with_header(correlation_id=1, client_id="x")
    return bytes(request.encode(header=True))


@pytest.mark.parametrize("last", [DONE, DUPLICATE])
def test_a_voter_is_added_as_soon_as_the_leader_can(quorum: Quorum, last: int) -> None:
    quorum.errors = iter([NOT_LEADER, TIMED_OUT, NOT_FOUND, None, last])
    endpoint = Address(host="h", port=9)
    voters.add_voter(CONTROLLERS, 102, DIRECTORY, endpoint)
    assert [node for node, _ in quorum.requests] == [101] * 5
    # key 80, version 0; then no cluster id, 10 s, the voter, its directory, one listener
    header = b"\0\x50\0\0\0\0\0\1\0\1x\0"
    fields = b"\0\0\0\x27\x10\0\0\0\x66" + DIRECTORY.bytes
    listener = b"\2\x0bCONTROLLER\2h\0\x09\0"
    assert bytes_of(quorum.requests[-1][1]) == header + fields + listener + b"\0"


@pytest.mark.parametrize("last", [DONE, NOT_FOUND])
def test_a_voter_is_removed_as_soon_as_the_leader_can(quorum: Quorum, last: int) -> None:
    quorum.errors = iter([TIMED_OUT, DUPLICATE, last])
    voters.remove_voter(CONTROLLERS, 100, DIRECTORY)
    assert len(quorum.requests) == 3
    header = b"\0\x51\0\0\0\0\0\1\0\1x\0"
    expected = header + b"\0\0\0\0\x64" + DIRECTORY.bytes + b"\0"
    assert bytes_of(quorum.requests[-1][1]) == expected


def test_a_quorum_of_settings_refuses(quorum: Quorum) -> None:
    quorum.errors = iter([UNSUPPORTED])
    with pytest.raises(
        HarnessError, match="Kafka refuses to change voters: the voters of this quorum are fixed"
    ):
        voters.remove_voter(CONTROLLERS, 100, DIRECTORY)
    assert len(quorum.requests) == 1


def test_a_change_that_is_never_done_is_an_error(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voters, "_LIMIT_S", 0.1)
    quorum.errors = itertools.repeat(TIMED_OUT)
    with pytest.raises(WaitTimeoutError, match=r"controller 102 to become a voter; last seen: .*7"):
        voters.add_voter(CONTROLLERS, 102, DIRECTORY, CONTROLLERS[102])


@pytest.mark.parametrize("text", [None, "", "it is a voter", "x" * 300])
def test_an_answer_is_read(text: str | None) -> None:
    # 0 is null; a length is one more, in groups of seven bits.
    length = {None: b"\0", "": b"\1", "it is a voter": b"\x0e"}.get(text, b"\xad\2")
    content = length + (text or "").encode()
    frame = b"\0\0\0\5\0" + b"\0\0\0\0" + b"\0\x7e" + content + b"\0"
    answer = VoterResponse.decode(frame)
    assert (answer.error_code, answer.error_message) == (DUPLICATE, text)
