"""Kafka's replication as functions over a state: every release's rules."""
