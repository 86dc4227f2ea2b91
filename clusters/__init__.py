"""Clusters: real Kafka of every catalogued release, with faults and administration."""
