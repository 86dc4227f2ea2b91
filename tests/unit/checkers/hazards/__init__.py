"""Tests of the catalogue of hazards, and of their evaluation."""
