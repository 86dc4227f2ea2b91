"""Summaries of clients' histories: rows, records, offset runs, version order."""
