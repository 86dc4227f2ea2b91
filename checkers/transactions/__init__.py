"""Checkers of transactions: each is all or nothing, and loops that also read are exactly once."""
