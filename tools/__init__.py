"""Tools that generate pages of docs/, record results, and check the project's style."""
