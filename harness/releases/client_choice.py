"""The choice of a client: a library, perhaps with its release (``java:3.9.2``), or a driver."""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.group_protocols import (
    CONSUMER,
    CONSUMER_SINCE,
    SHARE_BY_DEFAULT,
    SHARE_SINCE,
    GroupProtocol,
)
from highwater.harness.releases.release import Release

LIBRDKAFKA: Final = "librdkafka"
JAVA: Final = "java"
KAFKA_PYTHON: Final = "kafka-python"
AIOKAFKA: Final = "aiokafka"
DRIVER: Final = "driver"
"""Any library, in a separate process that a command of the user starts (docs/driver.md)."""

_DRIVERS: Final = Path(__file__).parents[1] / "clients/drivers"
_WHEELS: Final = {
    LIBRDKAFKA: "confluent-kafka",
    KAFKA_PYTHON: KAFKA_PYTHON,
    AIOKAFKA: AIOKAFKA,
}
"""The packages of the libraries that our own drivers import. A user may choose their release."""

_VERSION: Final = re.compile(r"\d+(\.\d+){1,2}")

LIBRARIES: Final = (LIBRDKAFKA, JAVA, KAFKA_PYTHON, AIOKAFKA)

_NEGOTIATES: Final = (0, 10, 2)
"""The first release whose Java clients support older brokers, from 0.10.0 on (KIP-97)."""

_ASKED_FIRST: Final = (0, 10, 0)
_KIP_896: Final = (4, 0)
_LEAST: Final = (2, 1)
"""The oldest release that clients and brokers of 4.0 support (KIP-896)."""

_METADATA: Final = (2, 5)

_OLDEST: Final = {
    KAFKA_PYTHON: (
        (0, 10, 0),
        "the client needs ApiVersions, which brokers before 0.10.0 do not support",
    ),
    AIOKAFKA: ((0, 11), "the client writes only records of format 2, which came with 0.11.0"),
}
"""The oldest brokers that a Python client supports. Each client also supports all newer brokers
(docs/clients.md)."""

_CODECS: Final = {KAFKA_PYTHON: ("none", "gzip", "zstd")}
"""Library to the compressions that it supports, if it does not support all. For some compressions,
kafka-python needs extra packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChoice:
    """A client library, or the command of a client driver.

    Attributes:
        release: the release of Java's clients. None for other libraries.
        command: the program of a client driver, and its arguments.
        wheel: the package that Highwater's own driver imports, such as ``confluent-kafka==2.10.0``.
            Empty for the installed package.
    """

    library: str
    release: Release | None = None
    command: tuple[str, ...] = ()
    wheel: str = ""

    @property
    def is_java(self) -> bool:
        """True for Kafka's own clients."""
        return self.library == JAVA

    @property
    def title(self) -> str:
        """The library's clients, for a sentence: ``Java's clients of 3.9.2``."""
        if self.wheel:
            return f"the clients of {self.wheel}"
        if self.library == DRIVER:
            return f"the clients of {shlex.join(self.command)}"
        if self.release is None:
            return f"{self.library}'s clients"
        return f"Java's clients of {self.release.name}"

    @property
    def idempotence(self) -> bool:
        """True if the library has idempotent and transactional producers."""
        return self.release is None or self.release.idempotence

    def compresses(self, codec: str) -> bool:
        """Return whether the library supports this compression."""
        codecs = _CODECS.get(self.library, (codec,))
        return codec in (codecs if self.release is None else self.release.compressions)

    def why_no_member(self, protocol: GroupProtocol) -> str:
        """Return why the library's consumers cannot be group members; empty if they can."""
        newer = protocol == CONSUMER
        if self.release is None:
            python = self.library in {KAFKA_PYTHON, AIOKAFKA}
            return "Python clients support classic groups only" if newer and python else ""
        number = self.release.number
        if number < _METADATA:
            return "consumers before 2.5 do not report the generation of their group"
        if newer and number < CONSUMER_SINCE:
            return "clients before 4.0 have only a preview of KIP-848"
        return ""

    def why_not_sharing(self, brokers: Release) -> str:
        """Return why the library's consumers cannot join a share group; empty if they can."""
        if self.command:
            return "such clients have no share consumers (KIP-932)"
        if self.library == LIBRDKAFKA and brokers.number < SHARE_BY_DEFAULT:
            return f"brokers of {brokers.name} reject librdkafka's member ids, and send no records"
        if self.release is not None and self.release.number < SHARE_SINCE:
            return "Java's share consumers came with 4.1 (KIP-932)"
        return ""

    def why_not(self, brokers: Release) -> str:
        """Return why the library does not support brokers of a release; empty if it does."""
        if self.library in _OLDEST:
            oldest, why = _OLDEST[self.library]
            return why if brokers.number < oldest else ""
        if self.release is None:
            return ""
        clients, servers = self.release.number, brokers.number
        if clients >= _KIP_896 and servers < _LEAST:
            return "clients since 4.0 support only brokers of 2.1 and later (KIP-896)"
        if servers >= _KIP_896 and clients < _LEAST:
            return "brokers of 4.0 and later support only clients of 2.1 and later (KIP-896)"
        if clients > servers and (clients < _NEGOTIATES or servers < _ASKED_FIRST):
            return (
                "clients before 0.10.2 need brokers of their release or later, and brokers "
                "before 0.10.0 need clients of their release or earlier"
            )
        return ""


def read_client(word: str, kafka: str) -> ClientChoice:
    """Return the client for a word of the command line.

    Args:
        word: the library, optionally with a colon and its release. A word with a slash is the
            command of a client driver.
        kafka: the release of the brokers. Java's clients have the same release, unless ``word`` has
            another release.

    Raises:
        UsageError: there is no such library, release or command.
    """
    if "/" in word:
        try:
            return ClientChoice(library=DRIVER, command=tuple(shlex.split(word)))
        except ValueError as error:
            raise UsageError(f"the command {word!r} cannot be read: {error}") from error
    library, colon, number = word.partition(":")
    if library not in LIBRARIES:
        raise UsageError(f"no client is called {library!r}", hint=nearest(library, LIBRARIES))
    if library == JAVA:
        return ClientChoice(library=JAVA, release=release(number if colon else kafka))
    if colon and not _VERSION.fullmatch(number):
        raise UsageError(
            f"{library} has no release {number!r} here",
            hint="Write librdkafka:2.10.0, for example, or java:RELEASE for Kafka's own clients.",
        )
    if library == LIBRDKAFKA and not colon:
        return ClientChoice(library=LIBRDKAFKA)
    return ClientChoice(
        library=DRIVER if library == LIBRDKAFKA else library,
        command=(sys.executable, str(_DRIVERS / f"{library.replace('-', '_')}_driver.py")),
        wheel=f"{_WHEELS[library]}=={number}" if colon else "",
    )
