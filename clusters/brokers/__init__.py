"""Brokers and coordinators that are started, broken and read."""
