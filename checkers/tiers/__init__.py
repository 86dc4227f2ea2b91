"""Checkers of the anomalies in the remote tier (KIP-405)."""
