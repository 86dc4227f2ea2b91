"""Facts are read in few requests, however many topics there are, and refusals are named."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.cli.hazards.advise import summary
from highwater.clusters.external.cluster_survey import ClusterSurvey
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.releases.cluster_facts import OWN_TOPICS, ClusterFacts
from highwater.harness.releases.famous_cluster_ids import FAMOUS_CLUSTER_IDS
from tests.kafka.secured_cluster import certificate
from tests.support.fake_broker import FakeBroker, described_cluster
from tests.unit.checkers.hazards.clusters import cluster as by_hand

_METADATA, _API_VERSIONS, _CONFIGS, _QUORUM = 3, 18, 32, 55


def survey(
    topics: int, partitions: int, *, refused: str = "", pattern: str = "*"
) -> tuple[ClusterFacts, FakeBroker]:
    with described_cluster(topics, partitions, refused=refused) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        facts = ClusterSurvey(bootstrap, socket.create_connection).read(pattern=pattern)
    return facts, broker


@pytest.mark.slow
def test_a_thousand_topics_take_a_handful_of_requests() -> None:
    began = time.process_time()
    facts, broker = survey(1_000, 50)
    assert len(facts.topics) == 1_000
    assert sum(topic.partitions for topic in facts.topics) == 50_000
    assert broker.asked == {_METADATA: 1, _API_VERSIONS: 4, _CONFIGS: 3, _QUORUM: 1}
    assert sum(facts.requests.values()) == broker.asked.total()
    assert time.process_time() - began < 20


def test_refusals_are_named_and_the_rest_is_read() -> None:
    facts, _ = survey(3, 1, refused="t1")
    assert facts.unseen == (
        "settings of topic t1: the user is not authorized to describe it",
        "the controllers: the user is not authorized to describe the cluster",
    )
    assert [topic.settings is None for topic in facts.topics] == [False, True, False]
    assert facts.controllers is None
    assert [str(broker.release) for broker in facts.brokers] == ["4.4.x"]
    assert facts.brokers[0].rack == "r1"


@pytest.mark.slow
def test_a_pattern_chooses_topics() -> None:
    facts, _ = survey(12, 1, pattern="t1*")
    assert [topic.name for topic in facts.topics] == ["t1", "t10", "t11"]
    with pytest.raises(UsageError, match="no topic matches 'x'"):
        survey(1, 1, pattern="x")


def test_kafkas_own_topics_are_read_whatever_the_pattern() -> None:
    with described_cluster(2, 1, own=OWN_TOPICS) as broker:
        survey_of = ClusterSurvey(f"127.0.0.1:{broker.port}", socket.create_connection)
        facts = survey_of.read(pattern="t1")
    assert [topic.name for topic in facts.topics] == ["t1"]
    assert [topic.name for topic in facts.own_topics] == [*OWN_TOPICS]
    assert all((topic.settings or {})["min.insync.replicas"] == "1" for topic in facts.own_topics)
    assert broker.asked[_CONFIGS] == 2  # one for the topics, one for the broker


@contextlib.contextmanager
def controller(folder: Path, newest: ssl.TLSVersion) -> Iterator[tuple[int, Path]]:
    """Listen as Strimzi's controllers do: by TLS, for clients with a certificate that it trusts."""
    folder.mkdir()
    trusted, both = certificate(folder, ["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(trusted))
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, newest
    context.load_cert_chain(both)

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client, _ = listening.accept()
            secured = context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
            with secured:
                with contextlib.suppress(ssl.SSLError):
                    secured.do_handshake()
                socket.socket.shutdown(secured, socket.SHUT_WR)
                while socket.socket.recv(secured, 1000):  # else a reset may overtake the alert
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield listening.getsockname()[1], trusted
        thread.join(10)


@pytest.mark.parametrize(
    ("newest", "secured", "says"),
    [
        (ssl.TLSVersion.TLSv1_3, True, "requires a client certificate that it trusts"),
        (ssl.TLSVersion.TLSv1_2, True, "requires a client certificate that it trusts"),
        (ssl.TLSVersion.TLSv1_3, False, "refuses connections with the brokers' security settings"),
    ],
)
def test_a_controller_that_needs_a_certificate_is_told_with_what_is_missing(
    tmp_path: Path, newest: ssl.TLSVersion, secured: bool, says: str
) -> None:
    with controller(tmp_path / "tls", newest) as (port, trusted):
        settings = {"security.protocol": "ssl", "ssl.ca.location": str(trusted)} if secured else {}
        survey = ClusterSurvey("127.0.0.1:1", dialer(settings))
        listener = SimpleNamespace(host="127.0.0.1", port=port)
        node = SimpleNamespace(node_id=3, listeners=[listener])
        assert survey._unclean_controllers([node]) is None
    [unseen] = survey._unseen
    assert unseen.startswith(f"controller 3: 127.0.0.1:{port} {says}")
    assert unseen.endswith("or state the controllers' setting with --controller-unclean")


def test_an_address_that_nobody_listens_on_is_told_with_its_reason() -> None:
    with pytest.raises(HarnessError, match=r"no broker of the cluster responds: .*refused"):
        ClusterSurvey("127.0.0.1:1", socket.create_connection).read()
    with pytest.raises(UsageError, match="--bootstrap 'b1' is not an address"):
        ClusterSurvey("b1", socket.create_connection).read()


@pytest.mark.parametrize("famous", [True, False])
def test_advise_says_that_a_famous_id_is_of_many_clusters(*, famous: bool) -> None:
    of = min(FAMOUS_CLUSTER_IDS) if famous else "7mHq0VbWTzOeR3kXy1uJNg"
    lines = summary(replace(by_hand(), cluster_id=of))
    assert [f"The cluster id {of} is used in" in line for line in lines].count(True) == famous
