"""Checkers of coordinators: their responses, their logs, and what clients and partitions show."""
