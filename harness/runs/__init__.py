"""A run: its plan, its history, its folder, its verdict."""
