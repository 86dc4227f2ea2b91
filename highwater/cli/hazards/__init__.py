"""The commands about hazards: the catalogue, and advice for a running cluster."""
