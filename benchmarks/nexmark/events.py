"""The three event streams of an auction site, from the generator, from Parquet files or from a topic of Kafka."""

from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.benchmarks.nexmark.messages import EVENT_TYPE, NexmarkValues, column_of
from penstock.benchmarks.nexmark.topic import EventTopic
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.dsl.lookup_tables import lookup_table
from penstock.dsl.readers import read_nexmark, read_parquet
from penstock.dsl.stream import Stream
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import SCHEMAS
from penstock.model.errors import UserError
from penstock.model.expressions import col
from penstock.model.lookup_tables import LookupTable

EventSource = NexmarkConfig | Path | EventTopic

KINDS = ("person", "auction", "bid")
WATERMARK = "4s"
"""How late an event may come: the reference's watermark delay."""

SIDE_INPUT = pa.schema({"key": pa.int64(), "value": pa.string()})
SIDE_INPUT_KEYS = 10_000


class Events:
    """Streams of persons, auctions and bids in one job; a stream that no query uses is not read."""

    def __init__(self, job: Job, source: EventSource) -> None:
        """``source`` is the generator's configuration, a directory with one Parquet file per kind, or a topic.

        A topic is read once, whichever kinds are used.
        """
        self._job = job
        self._source = source

    @cached_property
    def person(self) -> Stream:
        """People who register: id, name, emailAddress, creditCard, city, state, dateTime, extra."""
        return self._read("person")

    @cached_property
    def auction(self) -> Stream:
        """Auctions that open: id, itemName, initialBid, reserve, dateTime, expires, seller, category..."""
        return self._read("auction")

    @cached_property
    def bid(self) -> Stream:
        """Bids: auction, bidder, price, channel, url, dateTime, extra."""
        return self._read("bid")

    @cached_property
    def side_input(self) -> LookupTable:
        """A side table of ``key`` and ``value``: ``side_input.csv`` in the directory, or 10,000 keys as text."""
        file = self._source / "side_input.csv" if isinstance(self._source, Path) else None
        if file is not None and file.is_file():
            return lookup_table(file, schema=SIDE_INPUT)
        keys = pa.array(range(SIDE_INPUT_KEYS), pa.int64())
        return lookup_table(pa.table([keys, keys.cast(pa.string())], schema=SIDE_INPUT))

    def _read(self, kind: str) -> Stream:
        if isinstance(self._source, NexmarkConfig):
            stream = read_nexmark(kind, self._source, watermark=WATERMARK, job=self._job)
        elif isinstance(self._source, EventTopic):
            events = self._messages.filter(col(EVENT_TYPE) == KINDS.index(kind))
            stream = events.select(**{field: col(column_of(kind, field)) for field in SCHEMAS[kind].names})
        else:
            path = self._source / f"{kind}.parquet"
            stream = read_parquet(path, time="dateTime", watermark=WATERMARK, job=self._job)
        return stream.name(kind)

    @cached_property
    def _messages(self) -> Stream:
        """The events of all kinds in a topic."""
        assert isinstance(self._source, EventTopic)
        stream = read_kafka(
            self._source.topic,
            kafka=self._source.kafka,
            format=NexmarkValues(),
            until=self._source.until,
            time="dateTime",
            watermark=WATERMARK,
            job=self._job,
        )
        return stream.name("events")


def count_events(source: NexmarkConfig | Path) -> int:
    """Return how many events of all three kinds a generator or a directory has.

    Raises:
        UserError: a file is missing.
    """
    if isinstance(source, NexmarkConfig):
        if source.events is None:
            raise UserError("an endless generator has no number of events; give --events")
        return source.events
    missing = [kind for kind in KINDS if not (source / f"{kind}.parquet").is_file()]
    if missing:
        raise UserError(
            f"{source} has no {missing[0]}.parquet; a source directory holds person, auction and bid.parquet"
        )
    return sum(pq.read_metadata(source / f"{kind}.parquet").num_rows for kind in KINDS)
