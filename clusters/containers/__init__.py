"""Nodes as containers in one Docker network."""
