"""A library whose JVM cannot be spoken to leaves no JVM."""

from pathlib import Path

import pytest

from highwater.harness.clients.libraries import java_gateway
from highwater.harness.runs.plan import Plan
from highwater.runtime import client_libraries


def test_a_jvm_that_cannot_be_reached_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    class Jvm:
        port, token = 1, "token"

        def __init__(self, *_: object) -> None: ...

        def close(self) -> None:
            ended.append(self)

    class Unreachable:
        def __init__(self, *_: object) -> None:
            raise ConnectionRefusedError

    monkeypatch.setattr(client_libraries, "ClientJvm", Jvm)
    monkeypatch.setattr(java_gateway, "KafkaGateway", Unreachable)
    plan = Plan(kafka="4.4.0", client="java")
    with pytest.raises(ConnectionRefusedError):
        client_libraries.open_library(plan, tmp_path)
    assert len(ended) == 1
