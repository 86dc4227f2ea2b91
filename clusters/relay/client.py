"""The harness's side of the relay: it starts the relay's process, sends commands, reads reports."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import RelayRule, Route
from highwater.harness.base.errors import HarnessError, WaitTimeoutError

_ANSWER_S: Final = 10.0
_ROOT: Final = Path(__file__).parents[3]

Row = dict[str, Any]


class Relay:
    """The relay process of one cluster, until ``close``.

    The relay ends with this process, even after SIGKILL. Threads can share this object. When a
    method returns, its command has taken effect.

    Args:
        routes: addresses to listen on, and their targets.

    Attributes:
        addresses: hosts and ports on which the relay listens, in the order of the routes.

    Raises:
        HarnessError: the relay cannot listen on an address, or did not start.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._changed = threading.Condition()
        self._answers: dict[int, Row] = {}
        self._number = 0
        self._watcher: Callable[[Row], None] | None = None
        self._held_messages: list[Row] = []
        self._events: dict[int, list[Row]] = {}
        self._gone = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._process = subprocess.Popen(
            # -P: without it, Python imports files of the caller's folder instead of its modules.
            [sys.executable, "-S", "-P", "-m", "highwater.clusters.relay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            start_new_session=True,  # so that a terminal's Ctrl-C does not reach the relay
        )
        self._reader = threading.Thread(target=self._listen, name="relay", daemon=True)
        self._reader.start()
        try:
            bound = self._order("listen", routes=[asdict(route) for route in routes])["bound"]
        except BaseException:
            self.close()
            raise
        self.addresses: list[tuple[str, int]] = [(host, port) for host, port in bound]

    @property
    def pid(self) -> int:
        """Id of the relay's process."""
        return self._process.pid

    def add(self, rule: RelayRule) -> int:
        """Add a rule for all messages of some links; return its number for ``drop``."""
        with self._changed:
            self._number += 1
            number = self._number
        self._order("add", rule_id=number, rule=rule.plain())
        return number

    def catch(self, rule: MessageRule) -> int:
        """Add a rule for single messages; return its number for ``drop`` and ``events``."""
        with self._changed:
            self._number += 1
            number = self._number
            self._events[number] = []
        self._order("catch", rule_id=number, rule=rule.plain())
        return number

    def drop(self, *numbers: int, cause: str = "order") -> None:
        """Remove rules by number, and forward the frames that they hold. Never raise an error.

        Args:
            cause: the reason for the removal, for the events of held messages.
        """
        with contextlib.suppress(HarnessError):
            self._order("drop", rule_ids=list(numbers), cause=cause)

    def let_pass(self, number: int, *, lose: bool = False) -> None:
        """Forward the messages that a rule holds. The rule still applies to later messages.

        Args:
            lose: whether to drop the messages and close their connections, instead of forwarding.
        """
        self._order("pass", rule_ids=[number], cause="schedule", lose=lose)

    def events(self, number: int) -> list[Row]:
        """Return the events of the messages to which a rule applied. Each event is a row."""
        with self._changed:
            return list(self._events.get(number, []))

    def clients(self) -> list[str]:
        """Return the names of the clients that are connected to the relay."""
        return [str(name) for name in self._order("clients")["clients"]]

    @contextlib.contextmanager
    def under(self, *rules: RelayRule) -> Iterator[None]:
        """Apply rules to links during the ``with`` block."""
        numbers: list[int] = []
        try:
            for rule in rules:
                numbers.append(self.add(rule))  # noqa: PERF401 - each added rule must be dropped
            yield
        finally:
            self.drop(*numbers)

    def name_client(self, name: str, pid: int) -> None:
        """Give later connections of this process and its descendants the client ``name``."""
        self._order("name", client=name, pid=pid)

    def record(self, topics: Collection[str], group: str) -> None:
        """Report clients' requests that write to topics, commit offsets or end transactions.

        Args:
            topics: names and ids of the topics.
            group: the group whose offset commits are reported.
        """
        self._order("record", topics=[*topics], group=group)

    def watch(self, watcher: Callable[[Row], None] | None) -> None:
        """Call ``watcher`` with every report, on the thread that reads reports. None ends this."""
        self._watcher = watcher or self._watcher
        self._order("watch", on=watcher is not None)
        self._watcher = watcher

    def held_messages(self) -> list[Row]:
        """Return all messages that were held so far. Each message is a row."""
        with self._changed:
            return list(self._held_messages)

    def close(self) -> None:
        """End the relay's process. Never raises an error. A second call is allowed."""
        for pipe in (self._process.stdin,):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _order(self, verb: str, **words: object) -> Row:
        with self._changed:
            self._number += 1
            number = self._number
            line = json.dumps({"do": verb, "id": number, **words})
            pipe = self._process.stdin
            assert pipe is not None
            try:
                pipe.write(f"{line}\n".encode())
                pipe.flush()
            except (OSError, ValueError) as error:
                raise HarnessError("the process of the wire (proxy) has ended") from error
            self._changed.wait_for(lambda: number in self._answers or self._gone, _ANSWER_S)
            answer = self._answers.pop(number, None)
        if answer is None and self._gone:
            raise HarnessError(
                f"the wire's process ended with status {self._process.wait()}: {self._last_words()}"
            )
        if answer is None:
            raise WaitTimeoutError(
                f"the wire did not execute the command {verb} within {_ANSWER_S:g} s"
            )
        if "error" in answer:
            raise HarnessError(f"the wire cannot execute the command {verb}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "(no output)")

    def _listen(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with pipe:
            for line in pipe:
                if line.strip():
                    self._dispatch(json.loads(line))
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def _dispatch(self, row: Row) -> None:
        if "done" in row:
            with self._changed:
                self._answers[row["done"]] = row
                self._changed.notify_all()
            return
        if row["kind"] == "held":
            with self._changed:
                self._held_messages.append(row)
                self._changed.notify_all()
        if row["kind"] == "message" and row["rule"] is not None:
            with self._changed:
                self._events.setdefault(row["rule"], []).append(row)
                self._changed.notify_all()
        watcher = self._watcher
        if watcher is not None:
            watcher(row)
