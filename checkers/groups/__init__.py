"""Checkers of consumer groups and share groups: the promises that Kafka did not keep."""
