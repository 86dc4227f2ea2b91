"""The clients of a run: how they are set, what they send and read, what an answer means."""
