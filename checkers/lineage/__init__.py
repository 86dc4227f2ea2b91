"""Explains why a record is lost: the evidence in order of time, as witnesses and one sentence."""
