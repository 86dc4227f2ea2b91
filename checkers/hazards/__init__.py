"""Hazards: the known ways in which Kafka loses records, and which of them apply to a cluster."""
