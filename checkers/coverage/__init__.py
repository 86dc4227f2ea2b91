"""Coverage of the model: the situations of the model in which real brokers were observed."""
