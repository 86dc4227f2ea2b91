"""Coordinators: what they answer, what their logs hold, and what clients and partitions show."""
