"""Explains a run's anomalies by the rules of its Kafka release."""
