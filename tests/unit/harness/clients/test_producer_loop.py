"""A producer of the user's own records sends each once, in order, and then waits for the end."""

from pathlib import Path
from typing import Any, cast

from highwater.harness.clients.libraries.interfaces import OnDelivery
from highwater.harness.clients.operation_buffers import SendBuffer
from highwater.harness.clients.producer_loop import ProducerLoop
from highwater.harness.clients.send_rate import RateLimiter
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Run

TOPIC = Topic(name="orders", partitions=2)
RECORDS = [b'{"id": "a|b"}', b'{"id": "c"}', b'{"id": "d"}']
NAMES = ["a|b", "c", "d"]


class AcknowledgingProducer:
    """A client that acknowledges all it is given when it is polled."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, int]] = []
        self.waiting: list[Any] = []

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        assert topic == TOPIC.name
        self.sent.append((value, partition))
        self.waiting.append(on_delivery)

    def poll(self, _timeout: float = 0) -> int:
        while self.waiting:
            self.waiting.pop(0)(None, self)
        return 0

    def offset(self) -> int:
        return len(self.sent)

    def purge(self) -> None: ...

    def flush(self, _timeout: float) -> int:
        return 0

    def __len__(self) -> int:
        return len(self.waiting)


class After:
    """A stop signal that is set after it has been looked at so often."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_own_records_are_sent_once_under_their_names(tmp_path: Path) -> None:
    client, run = AcknowledgingProducer(), Run(tmp_path)
    with Recorder(run, lambda: 0) as recorder:
        tape = SendBuffer(
            recorder,
            process="producer-0",
            topic=TOPIC,
            acks="all",
            prefix="p0",
            named=NAMES.__getitem__,
        )
        loop = ProducerLoop(
            lambda: cast("Any", client),
            Plan(kafka="4.4.0", topic=TOPIC),
            tape,
            "p0",
            RateLimiter(0.0, lambda: 0),
            named=NAMES.__getitem__,
            records=RECORDS,
        )
        loop.run(After(4), lambda: 0.0)
    assert client.sent == [(value, n % 2) for n, value in enumerate(RECORDS)]
    assert loop.sent == len(RECORDS)
    rows = [row for part in read_stream(run.stream("history/ops")) for row in part.to_pylist()]
    assert [(row["value"], row["partition"]) for row in rows] == [("a|b", 0), ("c", 1), ("d", 0)]
