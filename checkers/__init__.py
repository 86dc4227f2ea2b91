"""The judge: it finds anomalies in run directories with Spark, and writes a verdict on each run.

The judge needs no cluster, no client and no clock.
"""
