"""Repeat runs: with the same steps, or with the fewest steps that cause the same anomaly."""
