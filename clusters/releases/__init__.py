"""The jars and software levels of Kafka releases."""
