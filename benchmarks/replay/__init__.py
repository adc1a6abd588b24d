"""Whether replays on Spark answer as streams do, and how fast they read Kafka."""
