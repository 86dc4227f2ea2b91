"""Cycles of operations (Adya): candidates by time, and the search among them."""
