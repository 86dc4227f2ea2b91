"""Nemesis: faults, their schedules and their targets."""
