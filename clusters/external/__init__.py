"""Clusters that somebody else runs, which the commands of an inventory damage and heal."""
