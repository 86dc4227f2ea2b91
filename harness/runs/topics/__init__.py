"""Topics of other kinds: compacted topics, whose records have keys, and tiered topics."""
