"""Cycles of operations (Adya)."""
