"""The process at the other end of a connection is known, and its descendants; real processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from highwater.clusters.relay.peers import owner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")

CONNECTS = """
import socket, subprocess, sys, time
if len(sys.argv) > 2:
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
end = socket.socket({family})
end.connect(("{host}", int(sys.argv[1])))
time.sleep(60)
"""
IPV4 = CONNECTS.format(family="socket.AF_INET", host="127.0.0.1")
MAPPED = CONNECTS.format(family="socket.AF_INET6", host="::ffff:127.0.0.1")
"""As a JVM connects."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


@pytest.mark.parametrize("script", [IPV4, MAPPED])
@pytest.mark.parametrize("by_child", [False, True])
def test_it_is_known_by_its_family(listener: socket.socket, script: str, *, by_child: bool) -> None:
    port = str(listener.getsockname()[1])
    words = [port, script] if by_child else [port]
    with subprocess.Popen([sys.executable, "-c", script, *words], process_group=0) as process:
        try:
            connection, _ = listener.accept()
            with connection:
                mine, stranger = process.pid, 2**22 + 1
                assert owner(connection, {"other": stranger, "app-0": mine}) == "app-0"
                assert owner(connection, {"app-0": stranger}) is None
                assert owner(connection, {}) is None
        finally:
            os.killpg(process.pid, 9)


def test_a_connection_of_this_process_is_not_the_programs(listener: socket.socket) -> None:
    with (
        subprocess.Popen(["/bin/sleep", "60"]) as process,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert owner(connection, {"app-0": process.pid}) is None
            assert owner(connection, {"app-0": os.getpid()}) == "app-0"
        process.kill()
