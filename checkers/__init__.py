"""The judge: it finds anomalies in a run directory with Spark, and writes a verdict.

The judge needs no cluster, no client and no clock.
"""
