"""A cluster in Kubernetes: the API server's recorded answers are served to its official client.

``answers.json`` has answers of a real API server (1.34) and the output of commands in its pods.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("kubernetes")

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.external.metadata import ClusterIdentity
from highwater.clusters.kubernetes import discovery, pod_commands
from highwater.clusters.kubernetes.api import Container, KubernetesTarget, Namespace
from highwater.clusters.kubernetes.pod_commands import BrokerInPod
from highwater.harness.base.errors import HarnessError, UsageError

RECORDED = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
PODS = "/api/v1/namespaces/staging/pods"
KAFKAS = "/apis/kafka.strimzi.io/v1/namespaces/staging/kafkas"
Answer = dict[str, Any]


def identity(fetch_version: int, *, kraft: bool = True) -> ClusterIdentity:
    return ClusterIdentity(
        cluster_id="abc",
        addresses={0: Address(host="10.0.0.1", port=9092)},
        topics=frozenset(),
        fetch_version=fetch_version,
        kraft=kraft,
    )


def test_the_nearest_release_that_is_not_newer_is_used(caplog: pytest.LogCaptureFixture) -> None:
    assert discovery._catalogued("4.1.5", identity(18)) == "4.1.2"
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("named", "says"),
    [("", "no pod names its release of Kafka"), ("3.6.0", "the pods name Kafka 3.6.0")],
)
def test_a_release_that_no_pod_names_is_said(
    named: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert discovery._catalogued(named, identity(18)) == "4.1.2"
    [message] = caplog.messages
    assert message.startswith(f"{says}, and the brokers' requests fit Kafka 4.1.2, 4.2.0, ")
    assert message.endswith(": 4.1.2 is used")


def test_brokers_that_no_release_fits_are_refused() -> None:
    with pytest.raises(UsageError, match="no known release fits the brokers of cluster abc"):
        discovery._catalogued("3.6.0", identity(2, kraft=False))


class Api:
    """A server of answers. A list of answers is given one after the other."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = json.loads(json.dumps(RECORDED["answers"]))
        self.requests: list[tuple[str, str, Any]] = []
        self.outputs: dict[str, list[str | HarnessError]] = {}

    def answer(self, method: str, path: str, body: object) -> Answer:
        self.requests.append((method, path, body))
        answer = self.answers.get(f"{method} {path}") or self.answers.get(path)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer or {"kind": "Status", "message": f"{path} not found", "code": 404}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            answer = api.answer(self.command, self.path.partition("?")[0], body)
            content = json.dumps(answer).encode()
            self.send_response(answer.get("code", 200))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.reply)

    def execute(
        _: Namespace, container: Container, __: str, *words: str, limit_s: float, out: IO[bytes]
    ) -> None:
        assert limit_s > 0
        output = api.outputs[" ".join((container.pod, *words))]
        text = output.pop(0) if len(output) > 1 else output[0]
        if isinstance(text, HarnessError):
            raise text
        out.write(text.encode())

    monkeypatch.setattr(Namespace, "execute", execute)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        entry = {"name": "lab", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "lab", "context": {"cluster": "lab", "user": "lab"}}
        config = {
            "clusters": [entry],
            "contexts": [context],
            "users": [{"name": "lab", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config | {"current-context": "lab"}))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        yield api
        server.shutdown()


@pytest.fixture
def brokers(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three brokers of 4.4.0 that respond at one address; the addresses that were tried."""
    tried: list[str] = []
    api.outputs = {pod: [text] for pod, text in RECORDED["facts"].items()}

    def query(address: Address) -> ClusterIdentity:
        tried.append(str(address))
        if address.port not in (31099, 9093) or address.host == "kafka.staging.svc":
            raise UnreachableError(f"{address} does not respond")
        return ClusterIdentity(
            cluster_id="4L6g3nShT-eMCtK--X86sw",
            addresses={id_: Address(host="127.0.0.1", port=31090 + id_) for id_ in range(3)},
            topics=frozenset(),
            fetch_version=18,
            kraft=True,
        )

    monkeypatch.setattr(discovery, "query_identity", query)
    monkeypatch.setattr(discovery, "answers", lambda _: True)
    return tried


def test_a_stateful_set_becomes_an_inventory(brokers: list[str]) -> None:
    path = discovery.describe("lab/staging/kafka")
    inventory = Inventory.read(path)
    assert (path.stat().st_mode & 0o777, path.parent.name) == (0o600, "lab%2Fstaging%2Fkafka")
    assert inventory.bootstrap == brokers[-1]
    assert (inventory.kafka, sorted(inventory.brokers)) == ("4.4.0", [0, 1, 2])
    assert inventory.brokers[2]["pod"] == "kafka-2"
    assert inventory.can("check", "kill", "stop", "start", "pause", "resume", "restart", "copy")
    line = inventory.command("copy", 1, topic="highwater-1", into="/a b").line
    assert line.endswith(" copy lab staging kafka-1 kafka highwater-1 '/a b' /var/lib/kafka/data")
    uid = RECORDED["answers"]["/apis/apps/v1/namespaces/staging/statefulsets/kafka"]["metadata"]
    assert inventory.place == f"StatefulSet lab/staging/kafka (uid {uid['uid']})"


def test_an_address_may_be_named(brokers: list[str]) -> None:
    discovery.locate("lab/staging/kafka@127.0.0.1:31099")
    assert brokers == ["127.0.0.1:31099"]
    with pytest.raises(HarnessError, match=r"127.0.0.1:1 does not respond.*\n.*@HOST:PORT"):
        discovery.locate("lab/staging/kafka@127.0.0.1:1")


@pytest.mark.usefixtures("brokers")
def test_signals_do_not_reach_the_first_process(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    api.outputs["kafka-1"] = [
        RECORDED["facts"]["kafka-1"].replace("pid ", "pid 1\nx ", 1)[:5]
        + RECORDED["facts"]["kafka-1"].partition("\n")[1]
        + RECORDED["facts"]["kafka-1"].partition("\n")[2]
    ]
    inventory = Inventory.read(discovery.describe("lab/staging/kafka"))
    assert sorted(inventory.commands.named()) == ["check", "copy", "restart"]
    assert "Kafka has process id 1 in kafka-1" in caplog.text


@pytest.mark.usefixtures("brokers")
@pytest.mark.parametrize(("roll", "verb"), [(True, "roll"), (False, "restart")])
def test_a_kafka_resource_names_its_listeners(roll: bool, verb: str) -> None:
    located = discovery.locate("lab/strimzi/lab")
    assert located.access.client["security.protocol"] == "SSL"
    assert "BEGIN CERT" in Path(located.access.client["ssl.ca.location"]).read_text("utf-8")
    inventory = Inventory.read(discovery.describe("lab/strimzi/lab", by_operator=roll))
    assert f" {verb} lab strimzi " in inventory.command("restart", 0).line


def test_other_names_and_permissions(api: Api) -> None:
    with pytest.raises(UsageError, match="neither a Kafka resource nor a StatefulSet other"):
        discovery.locate("lab/staging/other")
    with pytest.raises(UsageError, match="the context nowhere cannot be used"):
        discovery.locate("nowhere/staging/kafka")
    api.answers[f"{KAFKAS}/kafka"] = RECORDED["forbidden"]
    with pytest.raises(
        HarnessError, match=r"no permission to get kafkas\.kafka\.strimzi\.io\n.*role"
    ):
        discovery.locate("lab/staging/kafka")
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    api.answers[review] = [RECORDED["answers"][review], RECORDED["denied"]]
    with pytest.raises(HarnessError, match="no permission to list pods"):
        broker().check()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lab/staging/kafka", ("lab", "staging", "kafka", "")),
        ("arn:aws:eks:eu:1:cluster/a/b/c@h:1", ("arn:aws:eks:eu:1:cluster/a", "b", "c", "h:1")),
        ("me@x.eksctl.io/b/c", ("me@x.eksctl.io", "b", "c", "")),
    ],
)
def test_targets(text: str, parts: tuple[str, ...]) -> None:
    assert KubernetesTarget.parse(text) == parts
    with pytest.raises(UsageError, match="does not name a cluster"):
        KubernetesTarget.parse("staging/kafka")


def broker() -> BrokerInPod:
    return BrokerInPod(Namespace("lab", "staging"), "kafka-0", "kafka")


def test_a_killed_brokers_next_process_is_stopped(api: Api) -> None:
    gone = HarnessError("container not found")
    api.outputs["kafka-0 KILL "] = ["7:100\n"]
    api.outputs["kafka-0 STOP 7:100"] = [gone, "", "7:2345\n"]
    broker().kill()
    assert len(api.outputs["kafka-0 STOP 7:100"]) == 1
    api.outputs["kafka-0 KILL "] = [""]
    with pytest.raises(HarnessError, match="no process of Kafka"):
        broker().kill()


def successor(pod: Answer, ready: str) -> Answer:
    status = pod["status"] | {"conditions": [{"type": "Ready", "status": ready}]}
    return pod | {"metadata": pod["metadata"] | {"uid": "next"}, "status": status}


def test_a_restart_waits_for_the_next_pod(api: Api) -> None:
    pod = RECORDED["answers"][f"{PODS}/kafka-0"]
    absent = {"kind": "Status", "message": "pods not found", "code": 404}
    api.answers[f"GET {PODS}/kafka-0"] = [
        *(pod, pod, absent),
        successor(pod, "False"),
        successor(pod, "True"),
    ]
    api.answers[f"DELETE {PODS}/kafka-0"] = pod
    broker().restart()
    methods = [method for method, path, _ in api.requests if path.endswith("kafka-0")]
    assert methods == ["GET", "DELETE", "GET", "GET", "GET", "GET"]


def test_the_annotation_of_a_roll_is_removed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_commands, "_ROLL_S", 0.1)
    api.answers[f"PATCH {PODS}/kafka-0"] = RECORDED["answers"][f"{PODS}/kafka-0"]
    with pytest.raises(HarnessError, match="it is the same pod"):
        broker().roll()
    patches = [
        body["metadata"]["annotations"] for method, _, body in api.requests if method == "PATCH"
    ]
    assert patches == [{pod_commands._ROLL: "true"}, {pod_commands._ROLL: None}]
