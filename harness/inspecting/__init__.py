"""``highwater inspect``: replicas' log directories from any broker, without a run and without Kafka."""
