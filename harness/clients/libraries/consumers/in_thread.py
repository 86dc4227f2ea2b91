"""Calls that may never return: each in a thread, or all on an event loop in a thread."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_ENDS_S: Final = 2.0


def in_thread(name: str, call: Callable[[], _T]) -> Future[_T]:
    """Begin a call that may never return, in a thread for which the process does not wait."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - the thread that waits gets it
            future.set_exception(raised)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class LoopThread:
    """An event loop in its own thread, which can end as in a crash.

    Args:
        crash: called on the loop at its end; closes the connections of what runs there.
    """

    def __init__(self, name: str, crash: Callable[[], Awaitable[object]]) -> None:
        self.loop = asyncio.new_event_loop()
        self._crash = crash
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def begin(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Begin a coroutine; if the loop has ended, its Future fails."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError as raised:
            coroutine.close()
            failed: Future[_T] = Future()
            failed.set_exception(raised)
            return failed

    def end(self) -> None:
        """Cancel all tasks, and close the connections. Never raises; may be called twice."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_ENDS_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self._end())
        self.loop.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_ENDS_S)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._crash(), _ENDS_S)
