"""Hazards: the known ways in which Kafka loses records, and the conditions for each."""
