"""Clients that read the progress of a program under test: its committed positions and outputs."""
