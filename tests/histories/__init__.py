"""Tiny hand-written runs, and what a person says of each."""
