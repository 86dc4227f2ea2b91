"""Reports: a judged run as one HTML file that needs nothing else."""
