"""Hazards: ways in which Kafka loses records, as data, and what holds for a given cluster."""
