"""Makes anomalies and a verdict from a run directory, with Spark.

It needs no cluster, client or clock.
"""
