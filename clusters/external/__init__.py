"""External clusters, which are damaged and healed by the commands in an inventory."""
