"""Speed of reading messages from Kafka."""
