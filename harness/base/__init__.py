"""The base of every room: errors, files, waiting, limits, words for a person."""
