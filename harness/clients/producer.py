"""The producer that our clients send with: a fatal error is no exception of its ``poll``."""

import confluent_kafka
from confluent_kafka import KafkaException


class Serving:
    """What serves a client's callbacks, where one that has failed for good raises nothing.

    Python's client raises a fatal error (of an idempotent or transactional producer) once, out of
    whatever serves its callbacks at that moment, in place of those that had yet to come. What is
    asked of it next is refused with that error, and each record that waits gets its report: these
    are what the history is made of.
    """

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks; how many."""
        try:
            return int(super().poll(timeout))  # type: ignore[misc]
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            return 1

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until nothing waits; how many messages still do."""
        try:
            return int(super().flush(timeout))  # type: ignore[misc]
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            return int(super().flush(timeout))  # type: ignore[misc]


class Producer(Serving, confluent_kafka.Producer):
    """A producer whose fatal error is told by what it refuses, and by its records' reports."""
