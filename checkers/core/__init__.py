"""The base of checkers: anomalies, guarantees, and the decorator."""
