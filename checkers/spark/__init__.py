"""Spark sessions, and the functions that apply Python functions to rows in Spark."""
