"""Stories of replicas that are away, or lose their disks."""
