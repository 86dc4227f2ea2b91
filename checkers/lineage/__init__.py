"""Explains why a record is lost: a list of evidence in order of time, and one sentence."""
