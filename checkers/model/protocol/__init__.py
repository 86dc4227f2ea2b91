"""Kafka's replication as functions of a state, with the rules of every release."""
