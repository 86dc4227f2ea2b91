"""Nodes as containers of one network."""
