"""Tools: generated pages of docs/, and the project's lints."""
