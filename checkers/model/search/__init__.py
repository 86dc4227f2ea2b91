"""The search through the states that the protocol can reach."""
