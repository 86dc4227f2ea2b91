"""Explains an anomaly of a record: its evidence in order of time, and a few sentences."""
