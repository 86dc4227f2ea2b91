"""Decoders for Kafka's files on disk: segments in every format, and checkpoints.

The decoders need no Spark.
"""
