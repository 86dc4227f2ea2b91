"""The Kafka releases that Highwater knows: a catalogue, and how each release differs."""
