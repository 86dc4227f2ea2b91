"""What makes and checks the source: generated pages of docs/, and lints of the project's own."""
