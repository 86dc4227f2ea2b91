"""One run: from a plan to a folder that can be judged."""
