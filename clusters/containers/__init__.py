"""Nodes in containers of one Docker network."""
