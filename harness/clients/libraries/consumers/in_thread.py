"""Run a call that may never return in its own thread."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def in_thread(name: str, call: Callable[[], _T]) -> Future[_T]:
    """Begin a call that may never return, in a daemon thread. Return a Future of its result."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - the Future raises it
            future.set_exception(raised)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
