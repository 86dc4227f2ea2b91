"""Code for every package: errors, files, waiting, limits, and texts."""
