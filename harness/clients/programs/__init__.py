"""Clients that read a program's progress: its positions and its outputs."""
