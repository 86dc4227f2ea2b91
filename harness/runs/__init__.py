"""A run: its plan, its history, its directory, its verdict."""
