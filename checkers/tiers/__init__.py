"""Checkers of the remote tier (KIP-405)."""
