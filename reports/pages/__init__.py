"""The HTML pages: run, matrix, comparison, counterexample, store and others."""
