"""Spark sessions, and rows on their way to a kernel."""
