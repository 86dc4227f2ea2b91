"""From a run directory to anomalies and a verdict, in Spark. No cluster, no client, no clock."""
