"""Stories: scripted scenarios for three brokers, each with a predicted outcome."""
