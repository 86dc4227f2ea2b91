"""Checkers of a program under test: the outcome of each input, and the program's mistakes."""
