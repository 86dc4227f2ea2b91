"""Members of consumer groups and of share groups (KIP-932)."""
