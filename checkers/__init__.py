"""Makes anomalies and a verdict from a run directory, in Spark. No cluster, no client, no clock."""
