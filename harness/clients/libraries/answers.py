"""Responses about records. They arrive in another thread; a producer's ``poll`` handles them."""

import math
import queue
import time
from dataclasses import dataclass
from typing import Final

from highwater.harness.clients.libraries.interfaces import ClientError, OnDelivery

_LONGEST_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRecord:
    """A record with a response, or a record for which the producer stopped waiting."""

    at: int
    place: int | None
    content: bytes

    def partition(self) -> int:
        """Return the record's partition."""
        return self.at

    def offset(self) -> int | None:
        """Return the record's offset; None or below zero if the broker did not return it."""
        return self.place

    def value(self) -> bytes:
        """Return the record's value."""
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecord:
    """A record that waits for its response."""

    partition: int
    value: bytes
    on_delivery: OnDelivery


class Mailbox:
    """A queue of responses for one producer, and its records that still wait for a response.

    Any thread may call ``answer``. Only the producer's thread may call the other methods.
    """

    def __init__(self) -> None:
        self._sent: dict[int, WaitingRecord] = {}
        self._answers: queue.SimpleQueue[tuple[int, ClientError | None, int | None]]
        self._answers = queue.SimpleQueue()
        self._number = 0

    def __len__(self) -> int:
        return len(self._sent)

    def expect(self, record: WaitingRecord) -> int:
        """Store a record that the producer sends now; return its number for ``answer``."""
        self._number += 1
        self._sent[self._number] = record
        return self._number

    def answer(self, number: int, error: ClientError | None, offset: int | None) -> None:
        """Add the response about a record. The next ``serve`` handles it."""
        self._answers.put((number, error, offset))

    def serve(self, timeout: float) -> int:
        """Call the callbacks of all responses that have arrived; return their number.

        Args:
            timeout: seconds to wait for the first response. With a negative number, wait without a
                limit.
        """
        deadline = time.monotonic() + (timeout if timeout >= 0 else math.inf)
        served = 0
        while True:
            left = deadline - time.monotonic()
            wait = not served and left > 0
            try:
                answer = self._answers.get(block=wait, timeout=max(0.0, min(left, _LONGEST_S)))
            except queue.Empty:
                if not wait:
                    return served
            else:
                served += self._report(*answer)

    def give_up(self, error: ClientError) -> None:
        """Call the callback of every record without a response, with this error."""
        self.serve(0)
        for number in list(self._sent):
            self._report(number, error, None)

    def _report(self, number: int, error: ClientError | None, offset: int | None) -> bool:
        sent = self._sent.pop(number, None)
        if sent is None:  # ``give_up`` has reported it
            return False
        record = AnsweredRecord(at=sent.partition, place=offset, content=sent.value)
        sent.on_delivery(error, record)
        return True
