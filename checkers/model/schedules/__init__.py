"""Counterexamples as schedules, and scripts that the model plays."""
