"""The pages: a run, a matrix, a comparison, a counterexample, the store."""
