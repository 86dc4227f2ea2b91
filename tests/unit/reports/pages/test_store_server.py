"""A store over HTTP: its index and pages on loopback, and nothing else of the machine."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.harness.base.errors import StoreError, UsageError
from highwater.reports.pages import store_index
from highwater.reports.pages.run import write
from highwater.reports.pages.store_server import HOST, Server
from tests.browser.samples import write_all


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("here") / "store"
    runs = write_all(root, ("loss", "valid", "hostile"))
    for run in runs.values():
        write(run)
    half = root / "half"
    half.mkdir()
    (half / "plan.json").write_bytes(b"{")
    going = root / "going"
    going.mkdir()
    (going / "plan.json").write_bytes((runs["valid"].path / "plan.json").read_bytes())
    (going / "status.json").write_text('{"phase": "running"}')
    (root.parent / "secret.html").write_text("secret")
    (root / "link.html").symlink_to(root.parent / "secret.html")
    return root


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Server]:
    with Server(store, 0) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def ask(
    server: Server, path: str, *, host: str | None = None, method: str = "GET"
) -> tuple[int, str]:
    port = server.server_address[1]
    asked = http.client.HTTPConnection(HOST, port, timeout=30)
    asked.request(method, path, headers={"Host": host or f"{HOST}:{port}"})
    answer = asked.getresponse()
    text = answer.read().decode()
    asked.close()
    return answer.status, text


def test_the_index_has_every_run_whatever_its_state(server: Server, store: Path) -> None:
    status, text = ask(server, "/")
    assert status == 200
    assert "2 runs of 5 broke a promise" in text
    assert "running, or ended early in this phase" in text
    assert "plan.json is not a plan" in text
    assert "<script>" not in text
    assert text == store_index.page(store)


def test_every_link_of_the_index_leads_to_a_page(server: Server) -> None:
    _, text = ask(server, "/")
    links = {part.split('"')[0] for part in text.split('<a href="')[1:]}
    assert len(links) == 3
    for link in links:
        status, page = ask(server, f"/{link}")
        assert (status, page.startswith("<!doctype html>")) == (200, True)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/../secret.html",
            "/%2e%2e/secret.html",
            "//etc/passwd",
            "/link.html",
            "/half/plan.json",
        ),
        *("/nothing.html", "/%00.html", "/going/"),
    ],
)
def test_nothing_but_pages_of_the_store_is_given_out(server: Server, path: str) -> None:
    status, text = ask(server, path)
    assert (status, "secret" in text) == (404, False)


def test_other_names_and_other_methods_are_refused(server: Server) -> None:
    assert ask(server, "/", host="evil.example")[0] == 403
    assert ask(server, "/", host="localhost")[0] == 200
    assert ask(server, "/", method="POST")[0] == 501
    assert ask(server, "/", method="HEAD") == (200, "")


def test_a_taken_port_and_a_store_that_is_none(server: Server, store: Path) -> None:
    port = server.server_address[1]
    with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is taken"):
        Server(store, port)
    with pytest.raises(StoreError, match="there is no store at"):
        Server(store / "none", 0)


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    assert "No run yet" in store_index.page(tmp_path)
