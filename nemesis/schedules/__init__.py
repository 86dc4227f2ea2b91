"""Schedules of faults: notation, random choice, validation and execution."""
