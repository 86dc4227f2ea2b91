"""Campaigns of many runs: matrix, soak and nightly run."""
