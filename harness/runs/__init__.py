"""A run: its plan, its history, its folder, its verdict. No broker, no Spark."""
