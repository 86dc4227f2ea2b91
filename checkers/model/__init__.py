"""An executable model of Kafka's replication: one partition, a few brokers, every release's rules.

Every transition and invariant is an ordinary function over one small vector. A scripted run calls
them in plain Python; the search compiles the same functions.
"""
