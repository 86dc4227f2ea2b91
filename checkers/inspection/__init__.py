"""Comparison of replicas by their disks: log directories of any Kafka."""
