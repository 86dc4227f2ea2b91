"""Clients that look at a program under test: its positions and its outputs."""
