"""TLS and SASL for the probe, with the same settings as librdkafka.

librdkafka reads its settings itself. The probe has its own sockets, and applies the settings in
``SUPPORTED``. Only librdkafka uses the other settings.
"""

import socket
import ssl
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from highwater.clusters.core.addresses import Connector
from highwater.harness.base.errors import UsageError

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SUPPORTED: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
)
_SIZE: Final = struct.Struct(">i")


def dialer(client: Mapping[str, str], *, origin: str = "the inventory") -> Connector:
    """Return a function that opens connections with these settings.

    Args:
        origin: the file that has these settings, for error messages.
    """
    protocol = client.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"security.protocol cannot be {protocol!r}", hint=f"Use one of {', '.join(PROTOCOLS)}."
        )
    unsupported = [
        name for name in client if name.startswith(("ssl.", "sasl.")) and name not in SUPPORTED
    ]
    if unsupported:
        raise UsageError(
            f"the probe does not support {unsupported[0]}",
            hint=f"The probe supports {', '.join(SUPPORTED)}.",
        )
    context = _tls(client, origin) if protocol.endswith("ssl") else None
    sasl = _sasl(client) if protocol.startswith("sasl") else None
    if context is None and sasl is None:
        return socket.create_connection
    return partial(_dial, context, sasl)


def _tls(client: Mapping[str, str], origin: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
        if certificate := client.get("ssl.certificate.location"):
            key, password = client.get("ssl.key.location"), client.get("ssl.key.password")
            context.load_cert_chain(certificate, key, password)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates of {origin} cannot be used: {error}",
            hint="Check ssl.ca.location, ssl.certificate.location and ssl.key.location.",
        ) from error
    context.check_hostname = client.get("ssl.endpoint.identification.algorithm") != "none"
    if client.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sasl(client: Mapping[str, str]) -> dict[str, str]:
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or ""
    if mechanism not in MECHANISMS:
        raise UsageError(
            f"sasl.mechanism cannot be {mechanism!r}", hint=f"Use one of {', '.join(MECHANISMS)}."
        )
    missing = [name for name in ("sasl.username", "sasl.password") if name not in client]
    if missing:
        raise UsageError(f"{missing[0]} is missing", hint="Add it below [client].")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": client["sasl.username"],
        "sasl_plain_password": client["sasl.password"],
        "security_protocol": client["security.protocol"].upper(),
    }


def _dial(
    context: ssl.SSLContext | None,
    sasl: Mapping[str, str] | None,
    address: tuple[str, int],
    timeout_s: float,
) -> socket.socket:
    opened = socket.create_connection(address, timeout_s)
    try:
        if context is not None:
            opened = context.wrap_socket(opened, server_hostname=address[0])
        if sasl is not None:
            _authenticate(opened, sasl)
    except BaseException:
        opened.close()
        raise
    return opened


def _authenticate(opened: socket.socket, sasl: Mapping[str, str]) -> None:
    """Send SaslHandshake and SaslAuthenticate (KIP-43, KIP-152; since 1.0)."""
    mechanism = get_sasl_mechanism(sasl["sasl_mechanism"])(**sasl)
    handshake_request = SaslHandshakeRequest(version=1, mechanism=sasl["sasl_mechanism"])
    handshake = _ask(opened, handshake_request, SaslHandshakeResponse)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms)
        raise ConnectionError(
            f"the broker does not support SASL {sasl['sasl_mechanism']}. It supports: {offered}"
        )
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(version=0, auth_bytes=mechanism.auth_bytes())
        answer = _ask(opened, request, SaslAuthenticateResponse)
        if answer.error_code:
            raise ConnectionError(f"SASL authentication failed: {answer.error_message}")
        mechanism.receive(answer.auth_bytes)


def _ask(opened: socket.socket, request: Any, response: Any) -> Any:  # noqa: ANN401 - no types
    request.with_header(correlation_id=0, client_id="highwater-probe")
    opened.sendall(request.encode(header=True, framed=True))
    (size,) = _SIZE.unpack(_read(opened, _SIZE.size))
    return response.decode(_read(opened, size), version=request.API_VERSION, header=True)


def _read(opened: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = opened.recv(size - len(read))
        if not more:
            raise ConnectionResetError("the broker closed the connection")
        read += more
    return read
