"""Kafka's replication as functions over a state, with the rules of every release."""
