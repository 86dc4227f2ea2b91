"""The clients of a run: their settings, sends and reads, and the meaning of responses."""
