"""Apache Kafka as source and sink; the only package that uses confluent_kafka (docs/design/kafka.md)."""
