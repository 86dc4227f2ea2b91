"""Topics of other kinds: compacted ones, whose records have keys, and tiered ones."""
