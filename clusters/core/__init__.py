"""What a cluster is to everybody else, whoever runs it."""
