"""The jars of Kafka releases, and the software levels of brokers."""
