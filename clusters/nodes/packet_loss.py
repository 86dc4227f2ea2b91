"""Drop packets that go to a container, by iptables rules in the container's network.

This needs root, ``nsenter`` and ``iptables`` on this machine. The container does not need them.
"""

import os
import shutil
import subprocess
from typing import Final

from highwater.harness.base.errors import HarnessError

_PROGRAMS: Final = ("nsenter", "iptables")
_LIMIT_S: Final = 20.0


def why_not() -> str:
    """Return why packets cannot be dropped on this machine; empty if they can be dropped."""
    if not all(map(shutil.which, _PROGRAMS)):
        return f"needs {' and '.join(_PROGRAMS)}, on Linux"
    return "needs root, to enter a container's network" if os.geteuid() else ""


def lose(pid: int, share: float) -> None:
    """Drop a share (from 0 to 1) of the packets that reach the network of process ``pid``.

    This share replaces the share of an earlier call.

    Raises:
        HarnessError: this user may not enter the network, or a program is missing.
    """
    enter, iptables = map(shutil.which, _PROGRAMS)
    if reason := why_not():
        raise HarnessError(f"the fault packets-lost {reason}", hint="Leave packets-lost out.")
    assert enter is not None
    assert iptables is not None
    rules = [["-F", "INPUT"]]
    if share:
        dice = ["-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}"]
        rules.append(["-A", "INPUT", *dice, "-j", "DROP"])
    for rule in rules:
        try:
            subprocess.run(
                [enter, "-t", str(pid), "-n", iptables, "-w", *rule],
                check=True,
                capture_output=True,
                timeout=_LIMIT_S,
            )
        except subprocess.SubprocessError as error:
            says = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
            raise HarnessError(
                f"packets of a container cannot be dropped: {says or error}",
                hint="Leave packets-lost out.",
            ) from error
