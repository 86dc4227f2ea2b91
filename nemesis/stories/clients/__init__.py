"""Stories about clients: a producer or a group loses data while all brokers work correctly."""
