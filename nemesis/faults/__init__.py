"""The faults, family by family, and the registry that finds a fault by its name."""
