"""The clients of a run: their settings, what they send and read, and what answers mean."""
