"""Kafka's files on disk, decoded: segments of every record format, and checkpoints. No Spark."""
