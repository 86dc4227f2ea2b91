"""A cluster's nodes as processes of this machine."""
