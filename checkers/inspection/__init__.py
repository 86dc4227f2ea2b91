"""Comparison of replicas from the log directories of any Kafka cluster (`highwater inspect`)."""
