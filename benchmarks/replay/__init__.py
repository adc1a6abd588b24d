"""Replays on Spark: agreement with the stream's answers, and speed of reading Kafka."""
