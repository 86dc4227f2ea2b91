"""Client properties files, in the form of Kafka's tools (``--command-config``).

The properties are converted to the settings that ``security`` supports, with librdkafka's names.
The file may also contain settings with librdkafka's names. Certificates must be in PEM files,
because a Java key store cannot be read without Java.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.clusters.core.java_properties import from_properties
from highwater.clusters.external.security import SUPPORTED
from highwater.harness.base.errors import UsageError

_CREDENTIAL: Final = re.compile(r'\b(username|password)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;]+))')
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_PEM: Final = b"-----BEGIN "
_INLINE: Final = (
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
)
_TO_PEM: Final = (
    "Convert a PKCS12 store by `openssl pkcs12 -in STORE -out FILE.pem`. For a JKS store, first run"
    " `keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12`."
)


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings from a client properties file, for ``security.dialer``.

    Raises:
        UsageError: the file, or a file that it names, cannot be read or used.
    """
    try:
        properties = from_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="Give the path of a client properties file."
        ) from error
    settings = {name: value for name, value in properties.items() if name in SUPPORTED}
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    for name in _INLINE:
        if name in properties:
            raise UsageError(
                f"{path}: {name} is not supported",
                hint="Write the value to a PEM file, and set ssl.…store.location to its path.",
            )
    if store := properties.get("ssl.truststore.location"):
        settings["ssl.ca.location"] = _pem(path, "ssl.truststore.location", store)
    if store := properties.get("ssl.keystore.location"):
        settings["ssl.certificate.location"] = _pem(path, "ssl.keystore.location", store)
    if password := properties.get("ssl.keystore.password"):
        settings.setdefault("ssl.key.password", password)
    if jaas := properties.get("sasl.jaas.config"):
        settings |= _credentials(path, jaas)
    return _complete(path, settings)


def _complete(path: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings; raise UsageError if settings that SASL needs are missing."""
    if settings.get("security.protocol", "").lower().startswith("sasl"):
        named = "sasl.mechanism" in settings or "sasl.mechanisms" in settings
        for name, present in (
            ("sasl.mechanism", named),
            ("sasl.jaas.config", "sasl.username" in settings and "sasl.password" in settings),
        ):
            if not present:
                raise UsageError(
                    f"{path} has no {name}",
                    hint="Add this property for SASL. GSSAPI and OAUTHBEARER are not supported.",
                )
    return dict(settings)


def _pem(path: Path, name: str, store: str) -> str:
    try:
        content = Path(store).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: {name} cannot be read: {error}", hint="Check the path and its permissions."
        ) from error
    if _PEM not in content:
        raise UsageError(f"{path}: {name} is not a PEM file: {store}", hint=_TO_PEM)
    return store


def _credentials(path: Path, jaas: str) -> dict[str, str]:
    if not any(module in jaas for module in _MODULES):
        raise UsageError(
            f"{path}: the login module of sasl.jaas.config is not supported",
            hint=f"Use one of {' and '.join(_MODULES)}.",
        )
    words = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _CREDENTIAL.findall(jaas)
    }
    return {f"sasl.{name}": value for name, value in words.items()}
