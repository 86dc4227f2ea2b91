"""A cluster's metadata in brokers' answers, which may be older than those of other brokers."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.metadata import MetadataView
from highwater.harness.releases.catalogue import release

HERE = Address(host="127.0.0.1", port=9)


class Scripted(MetadataView):
    """Reads answers with these leader epochs, one after the other."""

    def __init__(self, kafka: str, epochs: Iterator[int | None]) -> None:
        super().__init__(release(kafka), {1: HERE, 2: HERE}, frozenset({1, 2}))
        self._answers = epochs

    def _metadata_of(self, topic: str, partition: int) -> Any:  # noqa: ANN401 - kafka-python's
        del topic, partition
        epoch = next(self._answers)
        return SimpleNamespace(leader_id=1, leader_epoch=epoch, isr_nodes=[1, 2])


def test_a_copy_that_is_older_than_one_seen_before_is_no_state_of_the_cluster() -> None:
    view = Scripted("3.9.2-zk", iter([2, 3, 2, 0, 3]))
    assert [view.partition("orders", 0).leader_epoch for _ in range(2)] == [2, 3]
    with pytest.raises(
        UnreachableError, match=r"epoch 2 for .*, but an earlier response had epoch 3"
    ):
        view.partition("orders", 0)
    assert view.partition("orders", 1).leader_epoch == 0  # of another partition
    assert view.partition("orders", 0).leader_epoch == 3
    view.close()


def test_brokers_that_tell_no_epochs_are_believed() -> None:
    view = Scripted("0.10.2.2", iter([None, None]))
    assert [view.partition("orders", 0).leader_epoch for _ in range(2)] == [None, None]
    view.close()
