"""The history of clients, summed up: rows, records, offset runs, version order."""
