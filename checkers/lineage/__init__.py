"""The explanation of a lost record: evidence in order of time, and one sentence."""
