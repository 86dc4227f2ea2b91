"""Addresses as they are written, and as clients use them."""

import logging
import socket

import pytest

from highwater.clusters.core import addresses
from highwater.clusters.core.addresses import Address, AddressGroup
from highwater.harness.clients import client_config


@pytest.mark.parametrize(
    ("text", "host"),
    [("[::1]:9092", "::1"), ("[fe80::1%lo]:9092", "fe80::1%lo"), ("kafka.example:9092", None)],
)
def test_an_address_is_read_and_written_alike(text: str, host: str | None) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host or "kafka.example", 9092)
    assert str(address) == text


@pytest.fixture
def _one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where 127.0.0.1 is all there is."""
    monkeypatch.setattr(addresses, "_whole_loopback_answers", lambda: False)


def ports(group: AddressGroup) -> set[int]:
    every = (group.brokers, group.peers, group.coordination)
    found = {address.port for mapping in every for address in mapping.values()}
    return found | {
        port for peer in group.ensemble.values() for port in (peer.quorum, peer.election)
    }


@pytest.mark.usefixtures("_one_address")
def test_ports_of_one_cluster_are_no_other_s_before_its_brokers_bind_them() -> None:
    groups = [AddressGroup(9, 5) for _ in range(12)]
    every = [ports(group) for group in groups]
    assert {len(each) for each in every} == {2 * 9 + 3 * 5}
    assert len(set().union(*every)) == sum(map(len, every))
    assert max(set().union(*every)) < 32_768  # from there on, systems give out ports themselves
    for group in groups:
        group.close()


@pytest.mark.usefixtures("_one_address")
def test_a_port_that_another_program_has_is_passed_over() -> None:
    first = AddressGroup(3)
    first.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", max(ports(first))))
        other.listen()
        second = AddressGroup(3)
        assert max(ports(first)) not in ports(second)
        second.close()


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
