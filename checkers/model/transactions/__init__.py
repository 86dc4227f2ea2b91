"""The model of transactions: producers, leaders' states of them, and one coordinator."""
