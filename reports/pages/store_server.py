"""Serve a store's index and pages over HTTP, on this machine only and read-only.

Only HTML pages are served. Requests whose ``Host`` is not a loopback name are refused, so that no
other site can make a visitor's browser read the store (DNS rebinding).
"""

import errno
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from highwater.harness.base.errors import HarnessError, NotThereError, StoreError, UsageError
from highwater.reports.pages import store_index

HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset({"127.0.0.1", "localhost"})


class Server(ThreadingHTTPServer):
    """Serves the pages of a store on a port of 127.0.0.1; port 0 chooses a free port."""

    daemon_threads = True

    def __init__(self, root: Path, port: int) -> None:
        if not root.is_dir():
            raise NotThereError(
                f"there is no store at {root}", hint="Name its folder with --store."
            )
        self.root = root.resolve()
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise _no_port(port, error) from error

    @property
    def url(self) -> str:
        """The address of the store's index page."""
        return f"http://{HOST}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "Highwater"

    def do_GET(self) -> None:
        """Respond with a page."""
        self._answer(self.wfile.write)

    def do_HEAD(self) -> None:
        """Respond with only the headers of a page."""
        self._answer(lambda _: None)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""

    def _answer(self, write: Callable[[bytes], Any]) -> None:
        status, body = self._respond()
        self.send_response(status)
        kind = "text/html" if status == HTTPStatus.OK else "text/plain"
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        write(body)

    def _respond(self) -> tuple[HTTPStatus, bytes]:
        if self.headers.get("Host", "").partition(":")[0] not in _NAMES:
            return HTTPStatus.FORBIDDEN, b"This server answers to 127.0.0.1 and localhost alone.\n"
        path = unquote(urlsplit(self.path).path).lstrip("/")
        try:
            if path == "":
                return HTTPStatus.OK, store_index.page(self.server.root).encode()
            return HTTPStatus.OK, _read(self.server.root, path)
        except StoreError as error:
            return HTTPStatus.NOT_FOUND, f"{error.message}\n".encode()
        except (OSError, ValueError):
            return HTTPStatus.NOT_FOUND, b"There is no such page in the store.\n"


def _read(root: Path, path: str) -> bytes:
    """Read a page in the store's folder; resolve dots and symbolic links in its path first."""
    target = (root / path).resolve()
    if target.suffix != ".html" or not target.is_relative_to(root):
        raise ValueError(path)
    return target.read_bytes()


def _no_port(port: int, error: OSError) -> UsageError | HarnessError:
    why = {errno.EADDRINUSE: "is taken", errno.EACCES: "is forbidden"}.get(error.errno or 0)
    if why is None:
        return HarnessError(f"port {port} of {HOST} cannot be opened: {error.strerror}")
    return UsageError(
        f"port {port} of {HOST} {why}", hint="Use another port: --port 0 chooses a free one."
    )
