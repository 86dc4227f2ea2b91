"""Campaigns, which consist of many runs: matrix, soak and nightly run."""
