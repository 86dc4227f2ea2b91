"""The Kafka releases that Highwater knows: a catalogue, and what each one does differently."""
