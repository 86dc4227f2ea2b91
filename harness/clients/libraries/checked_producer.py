"""The producer of our clients, which can fail permanently without an exception."""

import math
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

_SERVED_S: Final = 0.05


class Producer(confluent_kafka.Producer):
    """A producer whose fatal error appears in refused calls and in delivery reports.

    Python's client raises a fatal error (of an idempotent or transactional producer) once, from
    the call that serves callbacks at that moment, instead of the remaining callbacks. Later calls
    are refused with that error, and every waiting record gets its delivery report: the history is
    made from these.
    """

    def queue(self, topic: str, value: bytes, partition: int, **options: Any) -> None:  # noqa: ANN401 - of ``produce``
        """Queue a record, as ``produce`` does; wait while the queue is full."""
        while True:
            try:
                self.produce(topic, value, partition=partition, **options)
            except BufferError:
                self.poll(_SERVED_S)
            else:
                return

    def drop(self) -> None:
        """Do nothing: the producer ends with its last reference, and asks no coordinator."""

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks; return how many."""
        try:
            return int(super().poll(timeout))
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            return 1

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until no message waits; return how many still wait.

        This never calls the client's own ``flush``. After a fatal error, that method goes on to
        serve callbacks before it returns, and calls inside a callback fail while the error is
        pending. A callback that takes a lock would then never release it.
        """
        deadline = time.monotonic() + (timeout if timeout >= 0 else math.inf)
        while len(self) and (left := deadline - time.monotonic()) > 0:
            self.poll(min(left, _SERVED_S))
        return len(self)
