"""The wire's process: ``python -S -m clusters.relay``, orders on its input, reports on its output.

It ends when its input does: whatever ends the harness, ``kill -9`` too, closes that pipe.
"""

import os
import signal

from highwater.clusters.relay.event_loop import Loop


def main() -> None:
    """Carry bytes until the harness goes; a terminal's Ctrl-C is the harness's business."""
    for request in (signal.SIGINT, signal.SIGHUP):
        signal.signal(request, signal.SIG_IGN)
    orders, reports = os.dup(0), os.dup(1)
    Loop(orders, reports).run()


if __name__ == "__main__":
    main()
