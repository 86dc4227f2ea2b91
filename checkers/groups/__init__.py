"""Groups: what they were promised, and were not given."""
