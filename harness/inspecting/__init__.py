"""``highwater inspect``: log directories from any broker, without a run and without Kafka."""
