"""Apache Kafka as source and sink; the only package that uses confluent_kafka (engine.md 7)."""
