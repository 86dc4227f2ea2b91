"""Clients that read the progress of a program under test: its committed offsets and its outputs."""
