"""Benchmarks, which compare two or more variants in one process and print ratios."""
