"""Pages for people; `make docs` writes those that say what the code has."""
