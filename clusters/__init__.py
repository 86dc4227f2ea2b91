"""Clusters: real Kafka of every catalogued release, started, broken and read."""
