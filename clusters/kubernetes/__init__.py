"""Brokers in pods of Kubernetes: the API server's answers as an inventory, and its commands."""
