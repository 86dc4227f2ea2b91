"""Tools: generated pages of docs/, and lints of the project's own."""
