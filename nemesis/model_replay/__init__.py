"""Replays: the model's schedules, played on real brokers step by step."""
