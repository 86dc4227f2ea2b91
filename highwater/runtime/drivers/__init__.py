"""Tests that client drivers follow docs/driver.md."""
