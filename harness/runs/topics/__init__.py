"""Topics with special settings: compacted, tiered, or made like an existing topic."""
