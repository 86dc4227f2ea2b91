"""Checkers of controllers: they compare metadata logs, and find lost decisions."""
