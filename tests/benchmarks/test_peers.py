"""Each batch engine answers the Nexmark queries as the oracle does."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.peers.runner import ENGINES, VARIANTS, answer, load, run_peer
from penstock.engine.connectors.nexmark import NexmarkConfig
from penstock.model.errors import FatalError, OptionError
from tests.benchmarks.oracle import QUERIES, assert_same_rows, expected

FORMS = [(form, query) for query in QUERIES for form in VARIANTS.get(query, (query,))]
EVENTS = {
    "fast": NexmarkConfig(200_000, out_of_order_group=1000, start=1_704_153_590_000_000),
    "slow": NexmarkConfig(200_000, rate_per_s=10),
}


@pytest.fixture(scope="module", params=list(EVENTS))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    write_dataset(folder, EVENTS[request.param])
    return folder


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("form", "query"), FORMS)
def test_peers_agree_with_the_oracle(directory: Path, engine: str, form: str, query: str) -> None:
    actual = pa.Table.from_batches(answer(engine, form, directory))
    assert_same_rows(actual, expected(query, directory))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_query_is_there(engine: str) -> None:
    assert list(load(engine).QUERIES) == [form for form, _ in FORMS]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_counts_rows_and_seconds(engine: str, tmp_path: Path) -> None:
    write_dataset(tmp_path, NexmarkConfig(1000))
    result = run_peer(engine, "q0", tmp_path, runs=3)
    assert (result.engine, result.query, result.rows) == (engine, "q0", 920)
    assert 0 < result.seconds < 60


def test_bad_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no engine 'spark'; there are duckdb, polars"):
        run_peer("spark", "q0", tmp_path)
    write_dataset(tmp_path, NexmarkConfig(100))
    with pytest.raises(OptionError, match="duckdb has no query 'q99'; it has q0, q1"):
        run_peer("duckdb", "q99", tmp_path)
    with pytest.raises(OptionError, match="runs is 0"):
        run_peer("duckdb", "q0", tmp_path, runs=0)
    with pytest.raises(FatalError, match="duckdb failed on q0"):
        run_peer("duckdb", "q0", tmp_path / "nowhere")
