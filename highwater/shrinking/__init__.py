"""Runs again: the same steps once more, or the fewest with the same anomaly."""
