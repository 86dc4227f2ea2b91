"""Inputs of a program under test: their names in records, and the user's own records."""
