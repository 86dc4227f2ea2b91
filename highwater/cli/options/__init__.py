"""Options that several commands share, and the texts that commands print."""
