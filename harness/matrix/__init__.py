"""The matrix: its cells as values (``cells``), which there are (``plan``), and their runs (``run``).

``command`` is the command line.
"""
