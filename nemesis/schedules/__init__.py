"""Schedules of faults: their notation, random choice, checks and execution."""
