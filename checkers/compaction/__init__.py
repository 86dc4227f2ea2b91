"""Checkers of compacted topics, whose records have keys."""
