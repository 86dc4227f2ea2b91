"""Stories about clients: what a producer or a group may do while the brokers work correctly."""
