"""The lowest layer: runs, clients that record runs, and code for all packages."""
