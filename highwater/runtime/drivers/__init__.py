"""Tests of client drivers against docs/driver.md."""
