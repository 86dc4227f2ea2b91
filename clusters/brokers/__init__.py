"""Brokers and coordinators: start, faults and files."""
