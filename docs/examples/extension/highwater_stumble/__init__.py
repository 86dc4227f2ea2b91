"""A fault and a checker for Highwater."""
