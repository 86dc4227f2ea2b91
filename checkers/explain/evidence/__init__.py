"""Finds the events of a run that explain an anomaly; one module for each kind of event."""
