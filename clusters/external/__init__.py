"""External clusters. Commands in an inventory inject and heal the faults."""
