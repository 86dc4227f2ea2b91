"""The checkers: one function for each kind of anomaly, or for several related kinds."""
