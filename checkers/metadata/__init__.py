"""Checkers that compare controllers' metadata logs, and judge whether decisions are lost."""
