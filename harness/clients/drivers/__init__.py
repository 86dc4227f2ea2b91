"""Clients in processes of their own, in any language (docs/driver.md)."""
