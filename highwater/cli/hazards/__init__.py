"""The commands about hazards: the catalogue of hazards, and advice for a cluster."""
