"""A program under test: what became of each of its inputs, and what the program did wrong."""
