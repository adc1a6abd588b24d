import pyarrow as pa
import pytest

from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import generate, rows_of_kind
from penstock.engine.connectors.nexmark.source import NexmarkSource
from penstock.model.errors import OptionError
from tests.engine.connectors.reading import read_all


@pytest.mark.parametrize("kind", ["person", "auction", "bid"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("events", [0, 7, 35_600, 90_001])
def test_partitions_share_the_events(kind: str, parallelism: int, events: int) -> None:
    config = NexmarkConfig(events=events)
    rows = rows_of_kind(config, kind)
    assert rows is not None
    whole = pa.table(generate(config, kind, 0, rows))
    got = read_all(NexmarkSource(config, kind), 32_768, parallelism)
    found = pa.Table.from_batches(got.batches, whole.schema)
    if parallelism > 1:
        found, whole = found.sort_by("dateTime"), whole.sort_by("dateTime")
    assert found.equals(whole)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_reading_goes_on_from_any_position(parallelism: int) -> None:
    config = NexmarkConfig(events=90_000, out_of_order_group=100)
    source = NexmarkSource(config, "auction").restrict(["seller", "id"], None)
    assert source.schema.names == ["seller", "id"]
    whole = read_all(source, 500, parallelism)
    again = read_all(source, 500, parallelism, stop_after=1)
    assert again.rows == whole.rows
    assert len(whole.rows) == 5400


def test_an_endless_source_does_not_end() -> None:
    source = NexmarkSource(NexmarkConfig(events=None), "bid")
    assert not source.bounded
    for partition in source.partitions(2):
        reader = source.open(partition, None)
        for _ in range(5):
            read = reader.read(40_000)
            assert read.rows is not None and not read.ended


def test_there_is_no_other_kind() -> None:
    with pytest.raises(OptionError, match="no events of kind 'bids'; it has person, auction, bid"):
        NexmarkSource(NexmarkConfig(events=1), "bids")
