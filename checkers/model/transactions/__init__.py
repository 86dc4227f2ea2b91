"""The model of transactions: producers, partition leaders, and one coordinator."""
