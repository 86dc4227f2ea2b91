"""Keep the sessions of paused and dead brokers on KRaft, until a schedule ends them.

A paused or dead broker sends no heartbeats, so the controller fences it after the session timeout.
But in a schedule, whose steps take longer than the model's, it may have a session for any time. So
the harness sends the heartbeats.
"""

import contextlib
import threading
from typing import Final

from highwater.clusters.core.interfaces import Cluster, UnreachableError

_EVERY_S: Final = 1.0


class SessionKeeper:
    """Sends heartbeats for brokers. With ZooKeeper it does nothing.

    A thread begins with the first broker. Call ``close`` at the end.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._brokers: set[int] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, broker: int) -> None:
        """Send heartbeats for a paused or dead broker from now on."""
        with self._lock:
            self._brokers.add(broker)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send, name="sessions", daemon=True)
            self._thread.start()

    def release(self, broker: int) -> None:
        """Send no heartbeat for a broker any more."""
        with self._lock:
            self._brokers.discard(broker)

    def end(self, broker: int) -> None:
        """End a broker's session at once.

        Raises:
            UnreachableError: the broker has no session, or the coordination does not respond.
        """
        with self._lock:
            self._brokers.discard(broker)
            self._cluster.end_session(broker)

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _send(self) -> None:
        while not self._closing.wait(_EVERY_S):
            with self._lock, contextlib.suppress(UnreachableError):
                if not all(self._cluster.keep_session(broker) for broker in self._brokers):
                    return
