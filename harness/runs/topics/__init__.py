"""Compacted topics, whose records have keys, and tiered topics."""
