"""How fast messages are read from Kafka."""
