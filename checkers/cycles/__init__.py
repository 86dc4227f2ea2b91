"""Cycles of operations: dependencies that isolation levels forbid (Adya)."""
