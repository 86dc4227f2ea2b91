"""Faults in the record of a run: steps, effects, times, counts, and missed steps."""
