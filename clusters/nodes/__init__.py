"""One node of a cluster: its files, settings, JVM and storage."""
