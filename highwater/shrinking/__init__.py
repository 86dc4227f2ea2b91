"""Runs again: the same steps once more, or the fewest that still do the same harm."""
