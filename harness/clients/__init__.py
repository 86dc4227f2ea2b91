"""The clients of a run: their settings, sends and reads, and the outcomes of their requests."""
