"""Every group gets an offset, and all offsets expire at one moment."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.admin import expiring_groups
from highwater.clusters.admin.expiring_groups import commit_expiring
from highwater.clusters.core.interfaces import UnreachableError


class Coordinator:
    """A coordinator's connections: the requests, and the error code of each answer."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.asked: list[tuple[Any, float]] = []
        self.closed = 0

    def __call__(self, _address: object, *, timeout_s: float) -> "Coordinator":
        assert timeout_s > 0
        return self

    def ask(self, *requests: Any) -> list[Any]:  # noqa: ANN401 - kafka-python's
        self.asked += [(request, time.time()) for request in requests]
        place = SimpleNamespace(error_code=self.code)
        return [SimpleNamespace(topics=[SimpleNamespace(partitions=[place])]) for _ in requests]

    def close(self) -> None:
        self.closed += 1


def test_all_offsets_expire_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, groups = Coordinator(), [f"g{number}" for number in range(1_000)]
    monkeypatch.setattr(expiring_groups, "BrokerConnection", coordinator)
    expires_at = time.time() + 30
    commit_expiring("127.0.0.1:1", groups, "events", expires_at=expires_at)
    requests = [request for request, _ in coordinator.asked]
    assert sorted(request.group_id for request in requests) == sorted(groups)
    assert {request.API_VERSION for request in requests} == {2}
    for request, at in coordinator.asked:
        assert 0 < at + request.retention_time_ms / 1000 - expires_at + 5 < 10
        request.with_header(correlation_id=1, client_id="x")
        assert request.encode(header=True, framed=True)
    assert coordinator.closed > 1


def test_a_refused_commit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring_groups, "BrokerConnection", Coordinator(code=16))
    with pytest.raises(UnreachableError, match=r"refuses .* \{16\}"):
        commit_expiring("127.0.0.1:1", ["g"], "events", expires_at=time.time() + 30)
