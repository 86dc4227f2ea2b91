"""Options that several commands share, and their words as values."""
