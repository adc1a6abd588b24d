"""The engines of the benchmark read the same bids, as messages and as lines, and answer the same."""

import os
import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.benchmarks.replay.bids import FIELDS, PARTITIONS, write_bids
from penstock.benchmarks.replay.rate_measurement import (
    OURS,
    QUERIES,
    Request,
    answer,
    duckdb_asking,
    files_reading,
    topic_reading,
)
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.replay.kafka_reading import read_rows
from tests.replay.kafka_rows import everything, rows_of, source_of

BIDS = 120_000


@pytest.mark.long("a benchmark's engines; test_kafka_source reads topics on Spark")
def test_every_engine_reads_the_same_bids(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    name = f"bids-{secrets.token_hex(4)}"
    stops = write_bids(kafka, name, tmp_path, BIDS)
    try:
        assert list(stops.values()) == [50_000, 50_000, 20_000, 0] and len(stops) == PARTITIONS
        files = str(tmp_path / "*.jsonl")
        request = Request(OURS, kafka, name, stops, files, os.getpid(), runs=2, memory="1g")
        topic, lines, duckdb = topic_reading(request, spark), files_reading(request, spark), duckdb_asking(request)
        found = {query: {answer(topic, query), answer(lines, query), duckdb(query)} for query in QUERIES}
        source = source_of(name, kafka, schema={field.name: field.type for field in FIELDS})
        first = rows_of(read_rows(spark, source, everything(source)).limit(1), FIELDS)
    finally:
        delete_topics(KafkaSettings(kafka), [name])
    ((groups, bids, total),) = found["grouped"]
    assert found == {"count": {(1, BIDS, 0)}, "grouped": {(groups, BIDS, total)}, "wide": {(groups, BIDS, total)}}
    assert bids == BIDS and 1 < groups < BIDS and total > BIDS
    assert all(value is not None for value in first[0].values())
