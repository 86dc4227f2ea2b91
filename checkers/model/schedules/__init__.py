"""Schedules made from counterexamples, and scripts that the model executes."""
