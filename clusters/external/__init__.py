"""Clusters that somebody else runs, which are hurt and healed by the commands of an inventory."""
