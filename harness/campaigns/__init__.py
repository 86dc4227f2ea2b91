"""Cells, rows and outcomes of many runs: the matrix and the night."""
