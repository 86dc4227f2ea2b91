"""Members of a share group in a random run: they accept, release and reject, are slow, and crash.

Every second member acknowledges implicitly: each poll accepts the records of the previous poll. The
other members acknowledge every record after some work, which sometimes takes longer than the
record's lock. At the end all members accept all records, until no record arrives for longer than
the lock's duration.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.groups.share_journal import ACCEPT, REJECT, RELEASE, ShareJournal
from highwater.harness.clients.groups.share_session import ShareSession
from highwater.harness.clients.libraries.interfaces import (
    ReaderLibrary,
    SharedRecord,
    SharingConsumer,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.send_rate import POLL_S, ClientLifetime, draws, lives
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

_CALL_S: Final = 2 * POLL_S
_ASK_S: Final = 5.0
_AWAY: Final = 0.25
_AT_ONCE: Final = 100
_TYPES: Final = {
    ACCEPT: AcknowledgeType.ACCEPT,
    RELEASE: AcknowledgeType.RELEASE,
    REJECT: AcknowledgeType.REJECT,
}
_WEIGHTS: Final = {ACCEPT: 85, RELEASE: 12, REJECT: 3}
_SLOW: Final = 0.3
_TOO_SLOW: Final = 0.03
_WAITS_FOR_ANSWER: Final = 0.2


class ShareMember:
    """One member of a share group, with restarts after crashes. It runs in its own thread.

    Args:
        common: returns the settings of a client with the given name.
        number: number of the member; every second member acknowledges implicitly.
        draining: set when producers have ended. From then on the member accepts every record, and
            does not crash.
        library: library of the member's clients.

    Attributes:
        given_at: time at which the member last got a record, on the monotonic clock in seconds.
        given: (partition, offset) of every record that the member got.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        common: Callable[[str], clients.Settings],
        *,
        number: int,
        group: str,
        draining: threading.Event,
        library: ReaderLibrary = LIBRDKAFKA,
    ) -> None:
        self.given_at = time.monotonic()
        self.given: set[tuple[int, int]] = set()
        self._plan = plan
        self._recorder = recorder
        self._common = common
        self._name = f"share-{number}"
        self._group = group
        self._explicit = number % 2 == 0
        self._draining = draining
        self._library = library
        self._random = draws(plan, self._name)

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Run until ``stop`` is set. Then leave the group, unless ``answer_limit_s`` is 0."""
        mean_s = self._plan.workload.churn_s
        for life in lives(stop, self._random, mean_s):
            self._live(life, stop, answer_limit_s)
            self._draining.wait(self._random.random() * mean_s * _AWAY)

    def _live(
        self, life: ClientLifetime, stop: threading.Event, answer_limit_s: Callable[[], float]
    ) -> None:
        process = life.named(self._name)
        settings = clients.share_consumer(
            self._common(process), group=self._group, explicit=self._explicit, most=_AT_ONCE
        )
        session = ShareSession(
            self._plan,
            self._recorder,
            settings,
            process=process,
            library=self._library,
            warn=self._warn,
        )
        crashed = False
        while not stop.is_set():
            if life.is_set() and not self._draining.is_set():
                crashed = life.crashed
                break
            self._poll(session)
        session.end(crashed=crashed or answer_limit_s() <= 0)

    def _poll(self, session: ShareSession) -> None:
        """Poll, work, and acknowledge the poll's records."""
        try:
            sound = session.poll()
        except (KafkaException, IllegalStateException) as error:
            self._warn(error)
            self._draining.wait(_CALL_S)
            return
        if not sound:
            return
        self.given_at = time.monotonic()
        self.given |= {(message.partition() or 0, message.offset() or 0) for message in sound}
        self._work()
        if self._explicit:
            self._acknowledge(session.client, session.journal, sound)
        else:
            session.journal.answers(ACCEPT, sound)
        self._flush(session.client)

    def _work(self) -> None:
        """Wait for some time, sometimes longer than a record's lock.

        At the end of the run, do not wait.
        """
        draw = self._random.random()
        if draw < _TOO_SLOW:
            self._draining.wait(self._plan.lock_s * (1 + self._random.random() / 2))
        elif draw < _SLOW:
            self._draining.wait(self._plan.lock_s * self._random.random() / 2)

    def _acknowledge(
        self, client: SharingConsumer, journal: ShareJournal, messages: list[SharedRecord]
    ) -> None:
        draining = self._draining.is_set()
        names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
        for message in messages:
            event = ACCEPT if draining else self._random.choices(names, weights)[0]
            journal.answers(event, [message])
            try:
                client.acknowledge(message, _TYPES[event])
            except (KafkaException, IllegalStateException) as error:
                journal.refused(message)
                self._warn(error)

    def _flush(self, client: SharingConsumer) -> None:
        """Send the acknowledgements now with some probability. Otherwise the next poll does."""
        if self._random.random() >= _WAITS_FOR_ANSWER:
            return
        try:
            client.commit_sync(_ASK_S)
        except (KafkaException, IllegalStateException) as error:
            self._warn(error)

    def _warn(self, error: object) -> None:
        self._common(self._name)["logger"].warning("%s: %s", self._name, error)
