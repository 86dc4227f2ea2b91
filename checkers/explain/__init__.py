"""Explains a run's anomalies by its release's rules, if a rule explains them."""
