"""Consumers of all libraries, with the methods of confluent-kafka's consumer."""
