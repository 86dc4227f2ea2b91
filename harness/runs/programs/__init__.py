"""Inputs of a program under test: how a record names its input, and the user's own records."""
