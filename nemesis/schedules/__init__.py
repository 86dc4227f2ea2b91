"""Schedules of faults: how they are written, drawn at random, checked and executed."""
