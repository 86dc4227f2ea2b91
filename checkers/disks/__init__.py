"""Anomalies that the disks of replicas show."""
