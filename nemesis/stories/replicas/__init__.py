"""Stories of replicas that are down for long, or that lose their disks."""
