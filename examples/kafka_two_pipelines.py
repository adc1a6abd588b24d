"""Two pipelines joined by a topic of Kafka: one finds the expensive bids of an auction site, the other counts them.

Every bid is counted once, whatever crashes: the first writes exactly once, the second reads what is committed.
Start a broker with ``penstock dev kafka``, then run this; ``KAFKA_BOOTSTRAP`` names another one.
"""

import os
from secrets import token_hex
from tempfile import TemporaryDirectory

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

import penstock as ps
from penstock import col, count, max_, tumbling

KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"hot-bids-{token_hex(4)}"


def find(topic: str) -> ps.Job:
    """Build the first pipeline: a message for each expensive bid, those of one channel in one partition."""
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=200_000), watermark="2s", job=job).name("bids")
    hot = bids.filter(col("price") > 10_000_000).select("channel", "price", "dateTime")
    hot.write_kafka(topic, kafka=KAFKA, key="channel", guarantee="exactly_once").name("hot bids")
    return job


def tell(topic: str) -> ps.Job:
    """Build the second: count per channel and five seconds. Without ``until`` it would wait for more."""
    job = ps.Job()
    hot = ps.read_kafka(
        topic,
        kafka=KAFKA,
        schema={"channel": str, "price": int, "dateTime": pa.timestamp("ms")},
        time="dateTime",
        watermark="2s",
        until="latest",
        job=job,
    )
    counts = hot.name("hot bids").key_by("channel").window(tumbling("5s")).agg(bids=count(), top=max_("price"))
    counts.filter(col("bids") > 980).print()
    return job


if __name__ == "__main__":
    admin = AdminClient({"bootstrap.servers": KAFKA})
    admin.create_topics([NewTopic(TOPIC, num_partitions=4)])[TOPIC].result()
    with TemporaryDirectory() as checkpoints:
        find(TOPIC).run("find-hot-bids", checkpoint_dir=checkpoints, checkpoint_interval="100ms")
    tell(TOPIC).run("tell-hot-bids")
    admin.delete_topics([TOPIC])[TOPIC].result()
