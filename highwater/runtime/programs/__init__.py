"""A program under test during a run: its instances, its output and its end."""
