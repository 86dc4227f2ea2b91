"""Many runs: matrix, soak and nightly run."""
