"""The Kafka releases that Highwater supports: a catalogue of their differences."""
