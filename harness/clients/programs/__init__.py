"""Clients that read the progress of a program under test: its positions and outputs."""
