"""Clusters: real Kafka brokers of every catalogued release, with faults and administration."""
