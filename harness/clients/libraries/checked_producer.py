"""The producer that our clients send with: it can fail for good without an exception."""

import math
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

_SERVED_S: Final = 0.05


class Producer(confluent_kafka.Producer):
    """A producer whose fatal error shows in what it refuses, and by its records' reports.

    Python's client raises a fatal error (of an idempotent or transactional producer) once, out of
    whatever serves its callbacks at that moment, in place of those that had yet to come. What is
    asked of it next is refused with that error, and each record that waits gets its report: these
    are what the history is made of.
    """

    def queue(self, topic: str, value: bytes, partition: int, **options: Any) -> None:  # noqa: ANN401 - of ``produce``
        """Queue a record, as ``produce`` does; a full queue is waited out."""
        while True:
            try:
                self.produce(topic, value, partition=partition, **options)
            except BufferError:
                self.poll(_SERVED_S)
            else:
                return

    def drop(self) -> None:
        """Do nothing: it ends with the last reference to it, and asks its coordinator nothing."""

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks; how many."""
        try:
            return int(super().poll(timeout))
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            return 1

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until nothing waits; how many messages still do.

        Never by the client's own ``flush``: having raised a fatal error, that serves on before it
        returns, and what a callback calls fails while an error is pending. One that takes a lock
        then never gives it back.
        """
        deadline = time.monotonic() + (timeout if timeout >= 0 else math.inf)
        while len(self) and (left := deadline - time.monotonic()) > 0:
            self.poll(min(left, _SERVED_S))
        return len(self)
