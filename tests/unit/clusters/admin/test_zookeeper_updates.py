"""A node that somebody else changes meanwhile is read again, and nothing of theirs is lost."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import BadVersionError

from highwater.clusters.admin import topic_config
from highwater.clusters.admin.metadata import ZooKeeperView
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.releases.catalogue import release


class Result:
    def __init__(self, value: Any) -> None:  # noqa: ANN401 - kazoo's
        self.value = value

    def get(self, timeout: float) -> Any:  # noqa: ANN401 - kazoo's
        assert timeout > 0
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class ZooKeeper:
    """One node, which its controller changes after each of the first reads."""

    def __init__(self, content: object, others: list[object]) -> None:
        self.content, self.version, self.others = content, 3, others
        self.created: list[str] = []

    def get_async(self, _: str) -> Result:
        seen = json.dumps(self.content).encode(), SimpleNamespace(version=self.version)
        if self.others:
            self.content, self.version = self.others.pop(0), self.version + 1
        return Result(seen)

    def set_async(self, _: str, data: bytes, version: int = -1) -> Result:
        if version not in {-1, self.version}:
            return Result(BadVersionError())
        self.content, self.version = json.loads(data), self.version + 1
        return Result(None)

    def create_async(self, path: str, *_: object, **__: object) -> Result:
        self.created.append(path)
        return Result(path)


def view(zookeeper: ZooKeeper) -> ZooKeeperView:
    made = ZooKeeperView.__new__(ZooKeeperView)
    made._timeout_s = 1.0
    made._connected = lambda: zookeeper  # type: ignore[method-assign]
    return made


def test_a_change_of_another_in_between_is_kept() -> None:
    zookeeper = ZooKeeper(
        {"config": {"a": "1"}}, [{"config": {"a": "1", "b": "2"}}, {"config": {"b": "3"}}]
    )
    topic_config.write(view(zookeeper), release("3.9.2-zk"), "events", {"c": "4", "a": None})
    assert zookeeper.content == {"config": {"b": "3", "c": "4"}}
    assert zookeeper.created == ["/config/changes/config_change_"]


def test_a_node_that_changes_all_the_time_is_given_up() -> None:
    zookeeper = ZooKeeper({"n": 0}, [{"n": number} for number in range(1, 90)])
    with pytest.raises(UnreachableError, match="during each of"):
        view(zookeeper).update("/events", lambda node: node.update(mine=1))
