"""The two data sets of the oracle tests make every window, session and branch happen."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.nexmark.dataset import ensure_dataset, write_dataset
from penstock.engine.connectors.nexmark.generator import KINDS, SCHEMAS, NexmarkConfig, generate
from penstock.model.errors import OptionError
from tests.benchmarks.data_sets import DATA_SETS, Coverage, coverage
from tests.benchmarks.happenings import JOINS, RANKINGS, TIES, happenings
from tests.benchmarks.ties import write_ties

pytestmark = pytest.mark.xdist_group("coverage")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, int]]]:
    """The data sets by name, with their rows of each kind."""
    written = {}
    for name, config in DATA_SETS.items():
        directory = tmp_path_factory.mktemp(name)
        written[name] = directory, write_dataset(directory, config)
    return written


@pytest.fixture(scope="module")
def both(folders: dict[str, tuple[Path, dict[str, int]]]) -> dict[str, Coverage]:
    for _, rows in folders.values():
        assert sum(rows.values()) == 1_000_000
    return {name: coverage(directory, rows) for name, (directory, rows) in folders.items()}


@pytest.fixture(scope="module")
def at_midnight(folders: dict[str, tuple[Path, dict[str, int]]]) -> dict[str, int]:
    return happenings(folders["midnight"][0])


@pytest.fixture(params=list(DATA_SETS))
def found(request: pytest.FixtureRequest, both: dict[str, Coverage]) -> Coverage:
    return both[request.param]


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
def test_every_window_size_closes_often(found: Coverage) -> None:
    assert min(found.closed_windows.values()) >= 8, found.closed_windows


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
def test_days_change(found: Coverage) -> None:
    assert found.days >= 2
    assert found.split_auctions >= 1


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
def test_prices_and_channels_take_every_branch(found: Coverage) -> None:
    assert found.price_sides == {"below", "inside", "above"}
    assert found.channel_ids == {"Apple", "Google", "Facebook", "Baidu", "url", "none"}


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
def test_sessions_break_and_just_hold(both: dict[str, Coverage]) -> None:
    assert both["day"].broken_sessions >= 1000
    assert both["day"].exact_gaps >= 8


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
def test_every_time_of_day_occurs(both: dict[str, Coverage]) -> None:
    assert both["day"].bid_time_types == {"dayTime", "nightTime", "otherTime"}


@pytest.mark.long(
    "counts what two sets of a million events have, which long tests read; test_ties_are_broken and the files stay"
)
@pytest.mark.parametrize("name", [*JOINS, *RANKINGS])
def test_joins_and_rankings_have_work(at_midnight: dict[str, int], name: str) -> None:
    assert at_midnight[name] >= (2 if "days" in name else 1)


def test_ties_are_broken_in_a_data_set_of_their_own(tmp_path: Path) -> None:
    write_ties(tmp_path)
    found = happenings(tmp_path)
    assert {name: found[name] for name in TIES if found[name] < 10} == {}


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_files_hold_the_generated_rows(tmp_path: Path, compression: str) -> None:
    config = NexmarkConfig(10_000, out_of_order_group=100)
    rows = write_dataset(tmp_path / "new", config, row_group_rows=1000, compression=compression)
    assert rows == {"person": 200, "auction": 600, "bid": 9200}
    for kind in KINDS:
        file = pq.ParquetFile(tmp_path / "new" / f"{kind}.parquet")
        assert file.schema_arrow.equals(SCHEMAS[kind])
        assert file.read().combine_chunks().to_batches()[0].equals(generate(config, kind, 0, rows[kind]))


def test_bad_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="events is None"):
        write_dataset(tmp_path, NexmarkConfig(None))
    with pytest.raises(OptionError, match="compression is 'gzip'; it must be one of none, snappy"):
        write_dataset(tmp_path, NexmarkConfig(1), compression="gzip")
    with pytest.raises(OptionError, match="row_group_rows is 0"):
        write_dataset(tmp_path, NexmarkConfig(1), row_group_rows=0)
    assert write_dataset(tmp_path, NexmarkConfig(0)) == {"person": 0, "auction": 0, "bid": 0}


def test_a_data_set_is_written_once(tmp_path: Path) -> None:
    file = ensure_dataset(tmp_path, 1000) / "bid.parquet"
    first = file.stat().st_mtime_ns
    assert ensure_dataset(tmp_path, NexmarkConfig(1000)) == tmp_path
    assert file.stat().st_mtime_ns == first
    ensure_dataset(tmp_path, NexmarkConfig(1000, seed=1))
    assert file.stat().st_mtime_ns > first
    ensure_dataset(tmp_path, 500)
    assert pq.read_metadata(file).num_rows == 460
