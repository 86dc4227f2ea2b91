"""The coverage of the model: the situations in which real brokers were observed."""
