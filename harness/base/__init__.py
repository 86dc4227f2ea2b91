"""The base of every package: errors, files, waiting, limits, and texts for a person."""
