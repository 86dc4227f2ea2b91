"""The model of transactions: producers, leaders that know them, and one coordinator."""
