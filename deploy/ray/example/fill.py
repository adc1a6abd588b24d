"""Writes a million bids to the topic ``bids``, for bids.py to read."""

import os

import penstock as ps

bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=int(os.environ.get("EVENTS", "1_000_000"))))
bids.select("auction", "price", "channel", "dateTime").write_kafka("bids", kafka=os.environ["KAFKA"])
ps.run("fill")
