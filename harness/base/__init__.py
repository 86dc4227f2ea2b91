"""The base of every package: errors, files, waiting, limits, words for a person."""
