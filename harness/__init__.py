"""Highwater: what acknowledged records can this Kafka lose, and why."""
