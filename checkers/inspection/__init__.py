"""What only the disks of replicas show: log directories of any Kafka, held against one another."""
