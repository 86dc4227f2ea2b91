"""Checkers of coordinators: they compare responses with the coordinators' and partitions' logs."""
