"""What an anomaly is, what promises there are, and what a checker is."""
