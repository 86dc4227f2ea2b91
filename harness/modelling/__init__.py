"""The reference model on the command line: ``command`` asks, ``words`` tells what was found."""
