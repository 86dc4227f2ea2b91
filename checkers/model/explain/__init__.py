"""Explains the observations of a run by the rules of its release, or says that they do not."""
