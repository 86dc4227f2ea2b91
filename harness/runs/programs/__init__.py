"""Inputs of a program under test: how a record names one, and the user's own records."""
