"""The lowest layer: runs, the clients that record runs, and code that all packages use."""
