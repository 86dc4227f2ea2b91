"""Packets that are lost on their way to a container: rules of iptables in its network.

That needs root, ``nsenter`` and ``iptables`` on this machine, and none of them in the container.
"""

import shutil
import subprocess
from typing import Final

from highwater.harness.base.errors import HarnessError

_PROGRAMS: Final = ("nsenter", "iptables")
_LIMIT_S: Final = 20.0


def lose(pid: int, share: float) -> None:
    """Lose a share of the packets that reach a process's network, instead of an earlier share.

    Raises:
        HarnessError: this user may not enter the network, or a program is missing.
    """
    enter, iptables = map(shutil.which, _PROGRAMS)
    if enter is None or iptables is None:
        raise HarnessError(
            f"packets are lost by {' and '.join(_PROGRAMS)}, which are not here",
            hint="Leave packets-lost out.",
        )
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
                f"cannot lose packets of a container: {says or error}", hint="This needs root."
            ) from error
