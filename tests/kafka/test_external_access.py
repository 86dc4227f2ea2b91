"""Clients and the probe are let in by the same settings where brokers want TLS and a password."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.clusters.core.addresses import Address
from highwater.clusters.drivers import open_cluster as open_local
from highwater.clusters.external.cluster import open_cluster
from highwater.clusters.external.identity import recognise
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.external.metadata import answers
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

pytestmark = pytest.mark.kafka
KAFKA = (
    "3.9.2-zk"  # the local driver starts it without a word to its brokers, which is in the clear
)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and it with its key."""
    cert, key, both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kafka"]
    subprocess.run(
        ["openssl", *words, "-keyout", str(key), "-out", str(cert)],  # noqa: S607
        check=True,
        capture_output=True,
    )
    both.write_text(key.read_text() + cert.read_text())
    return cert, both


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_tls_and_a_password_let_in_whoever_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cert, both = certificate(tmp_path)
    settings = {
        "zookeeper.session.timeout.ms": "15000",  # a broker alone on a busy machine is not struck
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cert),
        "ssl.endpoint.identification.algorithm": "",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} username="a" password="b" user_a="b" user_us="ours";'
        ),
    }
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "us",
        "sasl.password": "ours",
        "ssl.ca.location": str(cert),
        "ssl.endpoint.identification.algorithm": "none",
    }
    cluster = open_local(release(KAFKA), tmp_path / "run", brokers=1, broker_config=settings)
    with contextlib.closing(cluster):
        path = inventory(tmp_path, cluster.bootstrap, client)
        found = await_condition(
            lambda: recognise(Inventory.read(path)),
            what="the broker to know of itself",
            limit_s=30,
            passing=(UsageError,),
        )
        with contextlib.closing(open_cluster(path, found.code, tmp_path / "ours")) as ours:
            ours.create_topic("highwater-1", [[1]], {})
            with contextlib.closing(ours.probe()) as probe:
                assert probe.replica(1, "highwater-1", 0).leo == 0
        assert "highwater-1" not in recognise(Inventory.read(path)).topics
        wrong = inventory(tmp_path, cluster.bootstrap, client | {"sasl.password": "theirs"})
        with pytest.raises(HarnessError, match=r"no broker .* authentication failed"):
            recognise(Inventory.read(wrong))
        plain = Address.parse(cluster.bootstrap)
        stranger = {**client, "ssl.ca.location": str(certificate(tmp_path)[0])}
        address = Address(host=plain.host, port=plain.port, dial=dialer(stranger))
        assert not answers(address)
        assert not answers(plain)


def inventory(folder: Path, bootstrap: str, client: dict[str, str]) -> Path:
    lines = [f"bootstrap = {json.dumps(bootstrap)}", f'kafka = "{KAFKA}"', "[client]"]
    lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in client.items()]
    path = folder / "staging.toml"
    path.write_text("\n".join([*lines, "[brokers.1]", ""]))
    return path
