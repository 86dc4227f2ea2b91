"""External clusters, which the commands of an inventory damage and heal."""
