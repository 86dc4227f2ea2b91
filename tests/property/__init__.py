"""Properties: what holds for every generated case."""
