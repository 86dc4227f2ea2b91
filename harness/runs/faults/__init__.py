"""Faults as a run recorded them: steps, effects, times, counts, and missed steps."""
