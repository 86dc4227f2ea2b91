"""Stories: scripted scenarios for three brokers, with a predicted outcome."""
