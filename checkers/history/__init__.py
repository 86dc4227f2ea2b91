"""Functions that summarise clients' histories: records, offset runs, version order."""
