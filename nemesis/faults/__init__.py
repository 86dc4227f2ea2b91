"""The faults, one module for each family, and the registry that finds a fault by its name."""
