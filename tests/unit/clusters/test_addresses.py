"""Addresses as they are written, and as clients use them."""

import logging

import pytest

from highwater.clusters.core.addresses import Address
from highwater.harness.clients import client_config


@pytest.mark.parametrize(
    ("text", "host"),
    [("[::1]:9092", "::1"), ("[fe80::1%lo]:9092", "fe80::1%lo"), ("kafka.example:9092", None)],
)
def test_an_address_is_read_and_written_alike(text: str, host: str | None) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host or "kafka.example", 9092)
    assert str(address) == text


@pytest.mark.parametrize(
    ("bootstrap", "family"),
    [
        ("127.2.3.11:9092,127.2.3.12:9092", "v4"),
        ("[::1]:9092", "any"),
        ("kafka.example:9092", "any"),
        ("10.0.0.7:9092", "any"),
    ],
)
def test_only_brokers_of_our_own_are_asked_by_ipv4_alone(bootstrap: str, family: str) -> None:
    settings = client_config.common(bootstrap, "p", logging.getLogger("t"), quirks={})
    assert settings["broker.address.family"] == family
