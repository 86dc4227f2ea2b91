"""The limits that faults set for a node's process."""

import resource
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.clusters.brokers.coordinator import RealNode
from highwater.harness.base.errors import HarnessError


def node(*pids: int) -> RealNode:
    return RealNode(1, cast("Any", SimpleNamespace(name="broker 1", pids=pids)))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/cat"], stdin=-1) as started:
        yield started


LIMITS: dict[int, tuple[Callable[[RealNode], None], Callable[[RealNode], None]]] = {
    resource.RLIMIT_NOFILE: (
        lambda one: one.limit_descriptors(limited=True),
        lambda one: one.limit_descriptors(limited=False),
    ),
    resource.RLIMIT_DATA: (lambda one: one.limit_memory(1), lambda one: one.limit_memory(None)),
    resource.RLIMIT_FSIZE: (
        lambda one: one.limit_writes(limited=True),
        lambda one: one.limit_writes(limited=False),
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_of_a_process_that_has_ended_needs_no_healing(
    limit: int, process: subprocess.Popen[bytes]
) -> None:
    impose, lift = LIMITS[limit]
    running = node(process.pid)
    impose(running)
    soft, hard = resource.prlimit(process.pid, limit)
    assert soft != hard
    lift(running)
    assert resource.prlimit(process.pid, limit) == (hard, hard)
    process.kill()
    process.wait()
    for ended in (running, node()):
        lift(ended)
        with pytest.raises(HarnessError, match="broker 1 is down"):
            impose(ended)
