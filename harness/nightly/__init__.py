"""The night: what runs (``plan``, ``jobs``), what it came to (``results``, ``outcome``), and so on.

``summary`` and ``trend`` tell it, ``keep`` keeps what went wrong, ``command`` is the command line.
"""
