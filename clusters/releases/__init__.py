"""The catalogue of Kafka releases, and the jars of each."""
