"""Coverage in the model's terms: which situations of the model real brokers were observed in."""
