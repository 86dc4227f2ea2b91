"""The relay's process: ``python -S -m highwater.clusters.relay``.

It reads orders on its input and writes reports to its output. It ends when its input ends: any end
of the harness, ``kill -9`` too, closes that pipe.
"""

import os
import signal

from highwater.clusters.relay.event_loop import Loop


def main() -> None:
    """Forward bytes until the harness ends; the harness alone handles a terminal's Ctrl-C."""
    for request in (signal.SIGINT, signal.SIGHUP):
        signal.signal(request, signal.SIG_IGN)
    orders, reports = os.dup(0), os.dup(1)
    Loop(orders, reports).run()


if __name__ == "__main__":
    main()
