"""Counts the bids of the topic ``bids`` by channel and minute, into JSON lines below ``DATA``, until it is stopped."""

import os
from datetime import datetime
from pathlib import Path

import penstock as ps
from penstock import count, max_, tumbling

data = Path(os.environ["DATA"])
schema = {"auction": int, "price": int, "channel": str, "dateTime": datetime}
bids = ps.read_kafka("bids", kafka=os.environ["KAFKA"], schema=schema, time="dateTime", watermark="5s").name("bids")
channels = bids.key_by("channel").window(tumbling("1min")).agg(bids=count(), top=max_("price")).name("channels")
channels.write_json(data / "channels").name("out")
ps.run("bids", checkpoint_dir=data / "checkpoints", checkpoint_interval="10s")
