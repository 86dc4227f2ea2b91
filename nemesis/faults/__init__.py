"""The faults, family by family, and the registry in which each is found."""
