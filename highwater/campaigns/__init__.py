"""Many runs: the matrix, the soak, the night."""
