"""Checkers of the anomalies that the disks of replicas show."""
