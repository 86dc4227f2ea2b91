"""The judge of compacted topics, whose records have keys."""
