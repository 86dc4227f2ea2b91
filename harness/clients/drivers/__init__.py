"""Clients in separate processes, in any language (docs/driver.md)."""
