"""Protocols and addresses of a cluster, for every driver."""
