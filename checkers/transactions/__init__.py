"""Transactions as a whole: all or nothing of each, and exactly once of those that also read."""
