"""Checkers of consumer groups and share groups."""
