"""The commands about programs of the user: one under test, and drivers of clients."""
