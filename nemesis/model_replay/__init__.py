"""A model's schedule, played on real brokers step by step."""
