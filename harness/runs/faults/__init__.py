"""Faults as a run recorded them: steps, effects, times and counts. Also steps that failed."""
