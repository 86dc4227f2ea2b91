"""Find the process at the other end of a connection within this machine. Linux only.

Processes of other users, or in other network namespaces, are not found.
"""

import contextlib
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_ANSWER_S: Final = 1.0
_REQUEST: Final = struct.Struct("=IHHIIBBBBI")
"""Headers of a Netlink message and of a request about one socket (sock_diag(7)). The addresses of
both ends of the socket follow."""
_ENDS: Final = struct.Struct("!HH16s16sIII")
_BY_FAMILY, _IS_REQUEST, _SOCK_DIAG, _ANY = 20, 1, 4, 0xFFFFFFFF
_INODE: Final = struct.Struct("=I")
_INODE_AT: Final = 84
"""The position of the inode in the response. If no socket was found, the response is shorter."""

End = tuple[str, int]
"""An IPv4 address and a port."""


def owner(connection: socket.socket, roots: Mapping[str, int]) -> str | None:
    """Return the name of the process that has the peer's socket, or whose descendant has it.

    Args:
        roots: process name to process id.
    """
    inode = _inode(connection.getpeername(), connection.getsockname()) if roots else 0
    if not inode:
        return None
    children = _children()
    for name, root in roots.items():
        if any(_has(pid, inode) for pid in _family(root, children)):
            return name
    return None


def _inode(end: End, other: End) -> int:
    """Return the inode of the socket at ``end`` of a connection, or 0 if it is not known."""
    if sys.platform != "linux":
        return 0
    hosts = (socket.inet_aton(host) for host, _ in (end, other))
    ends = _ENDS.pack(end[1], other[1], *hosts, 0, _ANY, _ANY)
    size = _REQUEST.size + len(ends)
    family = (socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY)
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(_ANSWER_S)
        kernel.send(_REQUEST.pack(size, _BY_FAMILY, _IS_REQUEST, 0, 0, *family) + ends)
        answer = kernel.recv(1 << 12)
        if len(answer) >= _INODE_AT + _INODE.size:
            return int(_INODE.unpack_from(answer, _INODE_AT)[0])
    return 0


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for entry in _PROCESSES.iterdir():
            with contextlib.suppress(OSError):  # the process has ended
                if entry.name.isdecimal():
                    # The program's name, in brackets, may have any character: proc_pid_stat(5).
                    fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    return children


def _family(root: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    yield root
    for child in children.get(root, ()):
        yield from _family(child, children)


def _has(pid: int, inode: int) -> bool:
    """Return whether a process has a socket open."""
    with contextlib.suppress(OSError):
        for entry in (_PROCESSES / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()) == f"socket:[{inode}]":
                    return True
    return False
