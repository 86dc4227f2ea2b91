"""A broker that only describes: it answers requests from a table, over a real socket."""

import contextlib
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeQuorumRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

Reply = Callable[[Any], Any]
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


class FakeBroker:
    """What was asked, by API key, and where it listens."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: Counter[int] = Counter()


@contextlib.contextmanager
def fake_broker(replies: Mapping[int, Reply]) -> Iterator[FakeBroker]:
    """Serve until the block ends. A request of another kind closes the connection."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                frame = self.rfile.read(struct.unpack(">i", size)[0])
                key, version, correlation = _HEAD.unpack_from(frame)
                broker.asked[key] += 1
                if key not in replies:
                    return
                request = _REQUESTS[key].decode(frame, version=version, header=True)
                answer = replies[key](request)
                answer.with_header(correlation_id=correlation)
                self.wfile.write(answer.encode(header=True, framed=True))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Connection) as server:
        broker = FakeBroker(server.server_address[1])
        threading.Thread(target=server.serve_forever, name="fake broker", daemon=True).start()
        try:
            yield broker
        finally:
            server.shutdown()
