"""The execution of a run: from its plan to a run directory that can be judged."""
