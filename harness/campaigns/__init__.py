"""Campaigns: many runs, as matrices or nightly runs. Their cells, rows and results."""
