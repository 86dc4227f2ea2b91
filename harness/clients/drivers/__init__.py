"""Client drivers: clients in separate processes, in any language (docs/driver.md)."""
