"""A broker that only describes: it answers requests from a table, over a real socket."""

import contextlib
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from highwater.harness.releases.cluster_facts import REMOTE_TIER

Message = Any  # kafka-python creates these classes at run time
Reply = Callable[[Message], Message]
"""From a decoded request to its answer, of the same version."""

_REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        DescribeConfigsRequest,
        DescribeQuorumRequest,
    )
}
_HEAD = struct.Struct(">hhi")
Respond = Callable[[int, int, int, bytes], bytes | None]
"""From key, version, correlation id and frame of a request to the frame of its answer, if any."""


@contextlib.contextmanager
def framed_server(respond: Respond) -> Iterator[int]:
    """Serve Kafka's frames until the block ends, on the port that it yields."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # which ends the connection
                while size := self.rfile.read(4):
                    frame = self.rfile.read(struct.unpack(">i", size)[0])
                    key, version, correlation = _HEAD.unpack_from(frame)
                    answer = respond(key, version, correlation, frame)
                    if answer is not None:
                        self.wfile.write(struct.pack(">i", len(answer)) + answer)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Connection) as server:
        threading.Thread(target=server.serve_forever, name="fake broker", daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


class FakeBroker:
    """What was asked, by API key, and where it listens."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: Counter[int] = Counter()


@contextlib.contextmanager
def fake_broker(replies: Mapping[int, Reply]) -> Iterator[FakeBroker]:
    """Serve until the block ends. A request of another kind closes the connection."""

    def respond(key: int, version: int, correlation: int, frame: bytes) -> bytes:
        broker.asked[key] += 1
        if key not in replies:
            raise ConnectionAbortedError
        answer = replies[key](_REQUESTS[key].decode(frame, version=version, header=True))
        answer.with_header(correlation_id=correlation)
        return bytes(answer.encode(header=True))

    broker = FakeBroker(0)
    with framed_server(respond) as broker.port:
        yield broker


_NEWEST = {1: 18, 3: 13, 18: 4, 32: 4, 55: 2}
_METADATA, _API_VERSIONS, _CONFIGS, _QUORUM = 3, 18, 32, 55


def _versions(request: Message) -> Message:
    feature: Any = ApiVersionsResponse.SupportedFeatureKey
    api: Any = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        version=request.API_VERSION,
        error_code=0,
        api_keys=[api(api_key=key, min_version=0, max_version=top) for key, top in _NEWEST.items()],
        supported_features=[feature(name="metadata.version", min_version=7, max_version=33)],
        finalized_features=[],
    )


def _configs(request: Message, refused: str = "") -> Message:
    result: Any = DescribeConfigsResponse.DescribeConfigsResult
    return DescribeConfigsResponse(
        version=request.API_VERSION,
        results=[
            result(
                error_code=29 if asked.resource_name == refused else 0,
                error_message="no",
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[
                    result.DescribeConfigsResourceResult(
                        name=name, value="1", read_only=False, is_sensitive=False
                    )
                    for name in asked.configuration_keys
                ],
            )
            for asked in request.resources
        ],
    )


def _quorum(request: Message) -> Message:
    return DescribeQuorumResponse(version=request.API_VERSION, error_code=31, topics=[])


def _metadata(names: Sequence[str], partitions: int, port: list[int]) -> Reply:
    broker: Any = MetadataResponse.MetadataResponseBroker
    topic: Any = MetadataResponse.MetadataResponseTopic

    def reply(request: Message) -> Message:
        return MetadataResponse(
            version=request.API_VERSION,
            brokers=[broker(node_id=1, host="127.0.0.1", port=port[0], rack="r1")],
            cluster_id="c",
            controller_id=1,
            topics=[
                topic(
                    error_code=0,
                    name=name,
                    is_internal=name.startswith("__") and name != REMOTE_TIER,
                    partitions=[
                        topic.MetadataResponsePartition(
                            error_code=0,
                            partition_index=index,
                            leader_id=1,
                            replica_nodes=[1, 2, 3],
                            isr_nodes=[1, 2, 3],
                        )
                        for index in range(partitions)
                    ],
                )
                for name in names
            ],
        )

    return reply


@contextlib.contextmanager
def described_cluster(
    topics: int, partitions: int, *, refused: str = "", own: Sequence[str] = ()
) -> Iterator[FakeBroker]:
    """A KRaft broker of 4.4, the only one, whose settings are all 1.

    Args:
        own: Kafka's own topics that it has.
        refused: a topic whose settings the user may not see; nobody may see the controllers.
    """
    port: list[int] = []
    replies: dict[int, Reply] = {
        _METADATA: _metadata([*(f"t{n}" for n in range(topics)), *own], partitions, port),
        _API_VERSIONS: _versions,
        _CONFIGS: lambda request: _configs(request, refused),
        _QUORUM: _quorum,
    }
    with fake_broker(replies) as broker:
        port.append(broker.port)
        yield broker
