"""The commands about hazards: what they print, and the exit codes of advice."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.cli.app import app
from highwater.harness.base.errors import HarnessError, UsageError
from tests.support.fake_broker import described_cluster

RUN = CliRunner()


def test_every_hazard_is_listed_and_shown() -> None:
    listed = json.loads(RUN.invoke(app, ["hazards", "--json"]).stdout)
    assert [hazard["id"] for hazard in listed] == [hazard.id for hazard in HAZARDS]
    words = RUN.invoke(app, ["hazards"]).stdout
    assert all(hazard.id in words for hazard in HAZARDS)
    shown = RUN.invoke(app, ["hazards", "show", "KAFKA-12670"]).stdout
    assert shown.startswith("unclean-election: ")
    assert "highwater run --kafka 4.4.0 --unclean --story unclean" in shown
    one = json.loads(RUN.invoke(app, ["hazards", "show", "KIP-101", "--json"]).stdout)
    assert one["releases"] == "before 0.11"
    assert isinstance(RUN.invoke(app, ["hazards", "show", "nothing"]).exception, UsageError)


def test_advice_says_what_applies_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    with described_cluster(3, 2, refused="t1") as broker:
        arguments = ["advise", "--bootstrap", f"127.0.0.1:{broker.port}", "--acks", "all"]
        text = RUN.invoke(app, [*arguments, "--report", str(page)])
        as_json = RUN.invoke(app, [*arguments, "--json"])
    assert text.exit_code == as_json.exit_code == 1
    assert "Cluster c on KRaft: 1 broker (4.4.x), 1 rack, 3 topics, 6 partitions." in text.stdout
    assert "Not seen: settings of topic t1: the user may not describe it." in text.stdout
    assert "CAN LOSE last-replica" in text.stdout
    assert "  topics: t0, t2\n" in text.stdout
    assert "GUARDED acks-1: acks=all, as you say" in text.stdout
    assert f"of {len(HAZARDS)} hazards apply" in page.read_text("utf-8")
    document = json.loads(as_json.stdout)
    assert document["status"] == "can lose"
    assert document["requests"]["MetadataRequest"] == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--bootstrap", "127.0.0.1:1"], HarnessError),
        (["--bootstrap", "nowhere"], UsageError),
        (["--bootstrap", "127.0.0.1:1", "--kafka", "new"], UsageError),
        (["--bootstrap", "127.0.0.1:1", "--command-config", "/nowhere.properties"], UsageError),
    ],
)
def test_bad_input_is_an_error_that_says_so(options: list[str], error: type[Exception]) -> None:
    done = RUN.invoke(app, ["advise", *options])
    assert isinstance(done.exception, error)
    assert not done.stdout


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port that takes no packet: its queue of connections is full, and nobody empties it."""
    with contextlib.ExitStack() as stack:
        nobody = stack.enter_context(socket.socket())
        nobody.bind(("127.0.0.1", 0))
        nobody.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(nobody.getsockname())
        yield nobody.getsockname()[1]


@pytest.mark.slow
def test_no_route_to_a_cluster_is_told_after_the_limit() -> None:
    with black_hole() as port:
        done = RUN.invoke(app, ["advise", "--bootstrap", f"127.0.0.1:{port}"])
    assert isinstance(done.exception, HarnessError)
    assert re.search("no broker of the cluster answers: .*timed out", done.exception.message)
    assert not done.stdout
