"""Cells, rows and results of campaigns (many runs): matrices and nightly runs."""
