"""Sections of the page of a run."""
