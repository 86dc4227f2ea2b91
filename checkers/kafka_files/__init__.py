"""Decoders for Kafka's files on disk: segments in every format, and checkpoints.

They need no Spark.
"""
