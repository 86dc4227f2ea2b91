"""Administration of a running cluster: metadata, topics, elections, probes."""
