"""Replays: the model's schedules, executed on real brokers step by step."""
