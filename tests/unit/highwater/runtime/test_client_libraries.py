"""Libraries of clients that cannot be downloaded or reached."""

from pathlib import Path

import pytest

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.libraries import java_gateway
from highwater.harness.runs.plan import Plan
from highwater.runtime import client_libraries, runner


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


def test_a_library_that_cannot_be_downloaded_is_told_before_a_broker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_wheel(requirement: str) -> Path:
        raise HarnessError(f"pip does not install {requirement}")

    monkeypatch.setattr(client_libraries, "wheel_folder", no_wheel)
    monkeypatch.setattr(runner, "open_cluster", lambda *_, **__: pytest.fail("it started"))
    plan = Plan(kafka="4.4.0", reader_client="aiokafka:0.0.1")
    with pytest.raises(HarnessError, match=r"aiokafka==0\.0\.1"):
        runner.boot(plan, tmp_path)
