"""How the bytes of Kafka messages become rows, and rows become bytes."""
