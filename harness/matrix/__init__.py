"""The matrix: its cells as values (``cells``), how they are laid out (``plan``), and their runs.

``run`` performs them, ``command`` is the command line.
"""
