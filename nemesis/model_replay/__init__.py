"""Replays: schedules from the model, executed on real brokers step by step."""
