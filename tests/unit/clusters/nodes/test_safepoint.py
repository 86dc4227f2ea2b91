"""Holding a JVM at a safepoint, where there is none; ``tests/kafka`` holds brokers' JVMs."""

import subprocess

import pytest

from highwater.clusters.nodes.safepoint import long_safepoint
from highwater.harness.base.errors import HarnessError


def test_a_process_that_has_ended_cannot_be_held() -> None:
    ended = subprocess.Popen(["true"])  # noqa: S607 - any program
    ended.wait()
    with (
        pytest.raises(
            HarnessError, match=f"the JVM of process {ended.pid} cannot be held: No such"
        ),
        long_safepoint(ended.pid),
    ):
        pass
