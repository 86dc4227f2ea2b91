"""One run: from its plan to a run directory that can be judged."""
