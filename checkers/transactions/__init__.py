"""Checkers of transactions, and of programs that read, transform and write in transactions."""
