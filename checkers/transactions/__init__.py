"""Checkers of transactions, which are atomic, and of loops, which process records exactly once."""
