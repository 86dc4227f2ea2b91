"""The relay's process: ``python -S -m highwater.clusters.relay``.

The process reads commands from its standard input and writes reports to its standard output. Its
input is a pipe from the harness. The pipe closes when the harness ends, even by ``kill -9``; then
the process exits.
"""

import os
import signal

from highwater.clusters.relay.event_loop import Loop


def main() -> None:
    """Forward bytes until the harness ends. Ignore a terminal's Ctrl-C."""
    for request in (signal.SIGINT, signal.SIGHUP):
        signal.signal(request, signal.SIG_IGN)
    orders, reports = os.dup(0), os.dup(1)
    Loop(orders, reports).run()


if __name__ == "__main__":
    main()
