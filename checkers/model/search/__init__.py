"""Searches of the states that the protocol can reach."""
