"""Stories about clients: what a producer or a group may do, while brokers do as they should."""
