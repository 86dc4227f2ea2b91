"""Kafka's own client properties become settings of ours; what cannot be read is told."""

from pathlib import Path

import pytest

from highwater.clusters.external.client_properties import read_properties
from highwater.harness.base.errors import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def written(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text)
    return path


def test_a_file_of_kafkas_tools_is_read(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    text = f"""
# comment
! another
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="me" \\
    password="a=b\\\\"c;d";
ssl.truststore.type=PEM
ssl.truststore.location={pem}
ssl.endpoint.identification.algorithm=
request.timeout.ms=1000
"""
    assert read_properties(written(tmp_path, text)) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'a=b"c;d',
        "ssl.ca.location": str(pem),
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("security.protocol=SASL_SSL", "has no sasl.mechanism"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "has no sasl.jaas.config"),
        ("sasl.jaas.config=com.sun.Krb5LoginModule required;", "login module .* not supported"),
        ("ssl.truststore.location=/nowhere/ca.pem", "ssl.truststore.location cannot be read"),
        ("ssl.keystore.key=-----BEGIN", "ssl.keystore.key is not supported"),
    ],
)
def test_what_cannot_be_used_is_told(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_properties(written(tmp_path, text))


def test_a_java_key_store_is_told_from_a_pem_file(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00")
    with pytest.raises(UsageError, match="is not a PEM file") as caught:
        read_properties(written(tmp_path, f"ssl.truststore.location={store}"))
    assert "openssl pkcs12" in caught.value.hint


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_properties(tmp_path / "none.properties")


def test_a_password_is_read_as_java_reads_it(tmp_path: Path) -> None:
    text = (
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.username=u\n"
        r"sasl.password=p\u00e4ss\tword\\ "
        "\n"
    )
    assert read_properties(written(tmp_path, text))["sasl.password"] == "p\u00e4ss\tword\\ "
    with pytest.raises(UsageError, match="hexadecimal"):
        read_properties(written(tmp_path, r"sasl.password=\u12"))
