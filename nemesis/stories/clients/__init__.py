"""Stories about clients: errors of a producer or a group while the brokers work correctly."""
