"""External clusters, whose faults are injected and healed by commands in an inventory."""
