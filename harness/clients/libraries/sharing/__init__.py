"""Members of share groups (KIP-932), by library."""
