"""A program under test while it runs: its instances, and the wait for its end."""
