"""Nemesis: what goes wrong, when and for whom."""
