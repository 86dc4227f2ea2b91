"""A soak: seeded random runs over all releases for as long as asked; what is wrong is kept.

``draw`` says what each run is, ``work`` runs, judges and keeps, ``summary`` tells what it came to,
``command`` is the command line.
"""
