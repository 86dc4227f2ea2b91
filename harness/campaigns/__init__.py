"""Cells, rows and results of many runs: matrices and nightly runs."""
