"""The libraries that clients of a run are of: librdkafka, or Kafka's own in Java."""
