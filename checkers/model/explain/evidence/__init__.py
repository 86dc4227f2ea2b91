"""Events of a run that explain an anomaly, by what they are about."""
