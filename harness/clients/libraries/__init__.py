"""The libraries of a run's clients: librdkafka, Kafka's Java clients, kafka-python and aiokafka."""
