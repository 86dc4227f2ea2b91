"""The lowest layer: runs, the clients that record them, and what every package needs."""
