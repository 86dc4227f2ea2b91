"""Producers of a topic's owner, who knows nothing of Highwater: they write until they are told."""

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final, Self

from confluent_kafka import KafkaException, Producer

TOGETHER: Final = 10
"""Records of a transaction."""
_TIMEOUT_S: Final = 60
_PAUSE_S: Final = 0.005


class Writing:
    """One producer that writes without end; ``counts`` says how many records came of it.

    Args:
        settings: of librdkafka; with a ``transactional.id``, every third transaction is aborted.
    """

    def __init__(self, bootstrap: str, topic: str, **settings: str | int | bool) -> None:
        self.counts = Counter[str]()
        self._topic = topic
        self._stop = threading.Event()
        self._transactions = "transactional.id" in settings
        base = {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
        self._producer = Producer({**base, "message.timeout.ms": 60_000, **settings})
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        if self._transactions:
            self._producer.init_transactions(_TIMEOUT_S)
            self._producer.begin_transaction()
        for number in itertools.count():
            if self._stop.wait(_PAUSE_S):
                break
            self._producer.produce(
                self._topic,
                key=f"customer-{number % 7}".encode(),
                value=f'{{"order": {number}}}'.encode(),
                headers=[("trace", b"%d" % number)],
                on_delivery=lambda error, _: self.counts.update(["failed" if error else "written"]),
            )
            self._producer.poll(0)
            if self._transactions and number % TOGETHER == TOGETHER - 1:
                commit = number // TOGETHER % 3 < 2
                self._end(commit=commit)
                self._producer.begin_transaction()
        if self._transactions:
            self._end(commit=False)
        self._producer.flush(_TIMEOUT_S)

    def _end(self, *, commit: bool) -> None:
        """Commit or abort; what is aborted is in the log, too."""
        self._producer.flush(_TIMEOUT_S)
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        while True:
            try:
                end(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    commit, end = False, self._producer.abort_transaction
                elif not error.args[0].retriable():
                    raise
            else:
                self.counts["committed" if commit else "aborted"] += TOGETHER
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(4 * _TIMEOUT_S)


@contextlib.contextmanager
def writing(
    bootstrap: str, topic: str, *others: str, **settings: str | int | bool
) -> Iterator[list[Writing]]:
    """Let a producer write to a topic until the block ends, and one for each transactional id."""
    made = [Writing(bootstrap, topic, **settings)]
    made += [Writing(bootstrap, topic, **{"transactional.id": other}) for other in others]
    with contextlib.ExitStack() as stack:
        for one in made:
            stack.enter_context(one)
        yield made
