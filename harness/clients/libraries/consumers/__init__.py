"""Consumers of every library behind the methods of confluent-kafka's."""
