"""Protocols and addresses of a cluster, the same for every driver."""
