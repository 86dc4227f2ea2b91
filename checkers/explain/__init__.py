"""Explains a run's anomalies by its release's rules, or says that no rule explains them."""
