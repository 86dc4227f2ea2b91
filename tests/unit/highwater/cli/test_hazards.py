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
    assert (one["introduced"], one["fixed"], one["year"]) == ([], ["0.11"], 2017)
    assert one["findings"] == ["docs/findings/overlapping-sets.md"]
    track = RUN.invoke(app, ["hazards", "show", "KAFKA-17754"]).stdout
    assert "found by:   Jepsen, 2024\n" in track
    assert "introduced: 0.11\nfixed in:   no release up to 4.4.0\n" in track
    assert isinstance(RUN.invoke(app, ["hazards", "show", "nothing"]).exception, UsageError)


def test_advice_says_what_applies_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    with described_cluster(3, 2, refused="t1") as broker:
        arguments = ["advise", "--bootstrap", f"127.0.0.1:{broker.port}", "--acks", "all"]
        text = RUN.invoke(app, [*arguments, "--all", "--report", str(page)])
        as_json = RUN.invoke(app, [*arguments, "--json"])
    assert text.exit_code == as_json.exit_code == 1
    assert "Cluster c on KRaft: 1 broker (4.4.x), 1 rack, 3 topics, 6 partitions." in text.stdout
    assert (
        "Not read from the cluster: settings of topic t1: the user is not authorized to describe"
        in text.stdout
    )
    assert "CAN LOSE last-replica" in text.stdout
    assert "  topics: t0, t2\n" in text.stdout
    assert "GUARDED acks-1: acks=all, as you say" in text.stdout
    assert f"of {len(HAZARDS)} hazards apply" in page.read_text("utf-8")
    assert f"of {len(HAZARDS)} hazards apply to this cluster.\n" in text.stdout
    assert text.stdout.count(": the cluster is on KRaft\n") == 1
    assert "t0, t2 can lose records by elected-again, last-replica" in text.stdout
    document = json.loads(as_json.stdout)
    assert document["status"] == "can lose"
    assert document["requests"]["MetadataRequest"] == 1


def test_kafkas_own_topics_and_kafkas_own_words_are_understood() -> None:
    own = ("__consumer_offsets", "__transaction_state", "__remote_log_metadata")
    with described_cluster(1, 1, own=own) as broker:
        words = ["advise", "--bootstrap", f"127.0.0.1:{broker.port}"]
        text = RUN.invoke(app, [*words, "--acks", "-1", "--all"]).stdout
        weak = RUN.invoke(app, [*words, "--acks", "1"]).stdout
    assert "GUARDED acks-1: acks=all, as you say" in text
    assert "CAN LOSE own-positions: " in text
    for topic, loses in zip(
        own,
        ("Offsets that a group has", "The coordinator's state of", "Kafka's metadata about"),
        strict=True,
    ):
        assert f"  topics: {topic}\n  loses:  {loses} " in text
    assert (
        "own-share-state: the cluster has no topic __share_group_state, so it has no share group\n"
        in text
    )
    assert "  on it:  highwater run --inventory FILE --acks 1 --nemesis" in weak


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--bootstrap", "127.0.0.1:1"], HarnessError),
        (["--bootstrap", "nowhere"], UsageError),
        (["--bootstrap", "127.0.0.1:1", "--kafka", "new"], UsageError),
        (["--bootstrap", "127.0.0.1:1", "--client", "java:7.7.7"], UsageError),
        (["--bootstrap", "127.0.0.1:1", "--acks", "2"], UsageError),
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
    assert re.search("no broker of the cluster responds: .*timed out", done.exception.message)
    assert not done.stdout


def test_an_upgrade_ends_begins_and_keeps_hazards() -> None:
    words = ["hazards", "--kafka", "3.9.2", "--to", "4.4.0"]
    document = json.loads(RUN.invoke(app, [*words, "--json"]).stdout)
    ids = {word: {each["id"] for each in document[word]} for word in ("ends", "begins", "stays")}
    assert {"no-elr-before-4.0", "KAFKA-20732"} <= ids["ends"]
    elr = {"upgrade-without-elr", "last-known-leader", "removed-but-eligible", "empty-last-leader"}
    elr |= {"removed-directory"}
    java = {"KAFKA-18641", "KAFKA-20332"}
    share = {"own-share-state", "unsaved-start", "late-initialize", "unseen-record"}
    assert ids["begins"] == {*elr, *java, *share, "full-heartbeat"}
    assert "elected-again" in ids["stays"]
    assert not ids["stays"] & (ids["ends"] | ids["begins"])
    assert document["command"] == (
        "highwater matrix --kafka 3.9.2,4.4.0"
        " --story tiered-new-leader,unloaded-groups,power-failure --min-isr 1,2"
    )
    text = RUN.invoke(app, words).stdout
    assert all(hazard in text for every in ids.values() for hazard in every)
    assert f"To see it on both releases: {document['command']}" in " ".join(text.split())


def test_an_upgrade_of_early_kraft_gives_a_setting_its_effect() -> None:
    document = json.loads(
        RUN.invoke(app, ["hazards", "--kafka", "3.7.2", "--to", "3.9.2", "--json"]).stdout
    )
    assert [hazard["id"] for hazard in document["begins"]] == [
        "controller-unclean",
        "inherited-settings",
        "unclean-election",
        "KAFKA-20732",
    ]
    assert document["command"].endswith(" --unclean both")


def upgrade(before: str, after: str) -> tuple[dict[str, set[str]], list[str]]:
    """The ids of what ends, begins and stays, and the stories of the printed matrix."""
    done = RUN.invoke(app, ["hazards", "--kafka", before, "--to", after, "--json"])
    document = json.loads(done.stdout)
    ids = {word: {each["id"] for each in document[word]} for word in ("ends", "begins", "stays")}
    stories = re.search(r"--story (\S+)", document["command"])
    return ids, stories[1].split(",") if stories else []


def test_the_matrix_has_no_story_that_shows_nothing_without_another_option() -> None:
    """A matrix has no --protocol and no --format: nothing would be lost on either release."""
    ids, stories = upgrade("2.8.2", "4.4.0")
    assert {"old-protocol", "old-format", "KAFKA-18991"} <= ids["ends"]
    assert "late-answer" in stories
    assert not {"loss", "held-fetch"} & {*stories}
    assert upgrade("2.8.0", "2.8.2") == (
        {"ends": {"KAFKA-13141"}, "begins": set(), "stays": upgrade("2.8.2", "2.8.2")[0]["stays"]},
        [],
    )


def test_what_a_release_does_not_have_is_no_hazard_of_it() -> None:
    """Kafka's own topics of transactions (0.11), tiers (3.6) and share groups (4.0, on KRaft)."""
    assert "own-transactions" in upgrade("0.10.2.2", "0.11.0.3")[0]["begins"]
    assert "own-remote-tier" in upgrade("3.4.1", "3.6.2")[0]["begins"]
    assert "own-share-state" in upgrade("3.9.2", "4.0.0")[0]["begins"]
    assert "own-positions" in upgrade("0.9.0.1", "4.4.0")[0]["stays"]


def test_a_release_of_both_coordinations_says_which_is_meant() -> None:
    """Who upgrades from ZooKeeper would read of a cluster on KRaft."""
    text = RUN.invoke(app, ["hazards", "--kafka", "3.9.2", "--to", "4.4.0"]).stdout
    assert "3.9.2 here uses KRaft; the same release on ZooKeeper is 3.9.2-zk." in " ".join(
        text.split()
    )
    text = RUN.invoke(app, ["hazards", "--kafka", "3.9.2-zk", "--to", "4.4.0"]).stdout
    assert "the same release on KRaft is 3.9.2." in " ".join(text.split())
    assert "which requires a migration" in " ".join(text.split())


def test_the_hazards_of_one_release_are_listed() -> None:
    listed = json.loads(RUN.invoke(app, ["hazards", "--kafka", "3.4.1", "--json"]).stdout)
    ids = {hazard["id"] for hazard in listed}
    assert "KAFKA-14139" in ids
    [last] = [hazard for hazard in listed if hazard["id"] == "last-replica"]
    assert "`min.insync.replicas` = 1" in last["other_conditions"]
    assert "from 0.11 to 4.4.0" not in last["other_conditions"]
    text = " ".join(RUN.invoke(app, ["hazards", "--kafka", "4.3.1"]).stdout.split())
    assert "share groups" in text
    assert "from 0.11" not in text
    assert not ids & {"KAFKA-15221", "KIP-101", "unclean-election"}
    for words in (["--to", "4.4.0"], ["--kafka", "4.4.0", "--to", "5.0"]):
        assert isinstance(RUN.invoke(app, ["hazards", *words]).exception, UsageError)


def test_a_story_takes_no_length() -> None:
    done = RUN.invoke(app, ["run", "--kafka", "4.4.0", "--story", "loss", "--for", "60s"])
    assert isinstance(done.exception, UsageError)
    assert "--for 60s" in done.exception.message
