"""Checkers of the disks of replicas."""
