"""Administering a running cluster: metadata, topics, elections, probes."""
