"""The checkers: one function for each kind of anomaly, or some that belong together."""
