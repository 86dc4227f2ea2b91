"""Spark sessions, and the transport of rows to kernels."""
