"""Reports: HTML pages about judged runs, each in one self-contained file."""
