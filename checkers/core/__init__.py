"""The vocabulary of checkers: anomalies, promises, and the decorator."""
