"""Explains what was observed in a run by the rules of its release, or refuses to."""
