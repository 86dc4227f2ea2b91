"""Inputs of a program under test: their names in records, and records from the user's file."""
