"""The ground floor: what a run is, the clients that record it, and what every room needs."""
