"""Each batch engine answers the Nexmark queries as the oracle does."""

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.queries import NAMES
from penstock.benchmarks.peers.runner import ENGINES, VARIANTS, answer, load
from penstock.engine.connectors.nexmark.generator import NexmarkConfig
from tests.benchmarks.oracle import QUERIES, assert_same_rows, expected
from tests.benchmarks.ties import write_ties
from tests.long_cases import but_for

pytestmark = pytest.mark.xdist_group("peers")

FORMS = [(form, query) for query in QUERIES for form in VARIANTS.get(query, (query,))]
EVENTS = {
    "fast": NexmarkConfig(100_000, out_of_order_group=1000, start=1_704_153_595_000_000),
    "slow": NexmarkConfig(100_000, rate_per_s=2),
}


@pytest.fixture(
    scope="module", params=but_for([*EVENTS, "ties"], ["fast"], "the queries once more on other events; [fast] stays")
)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "ties":
        write_ties(folder)
    else:
        write_dataset(folder, EVENTS[request.param])
    return folder


@pytest.mark.parametrize(
    ("form", "query", "engine"),
    but_for(
        [(form, query, engine) for form, query in FORMS for engine in ENGINES],
        [(name, name, "duckdb") for name in ("q3", "q5", "q18")],
        "all queries on engines that are compared; q3, q5 and q18 on DuckDB stay",
    ),
)
def test_peers_agree_with_the_oracle(directory: Path, form: str, query: str, engine: str) -> None:
    actual = pa.Table.from_batches(answer(engine, form, directory))
    assert_same_rows(actual, oracle(query, directory))


@lru_cache(maxsize=1)
def oracle(query: str, directory: Path) -> pa.Table:
    """One answer is kept: the engines take turns at each query."""
    return expected(query, directory)


@pytest.mark.parametrize("engine", ENGINES)
def test_bids_are_counted_in_one_window_of_processing_time(directory: Path, engine: str) -> None:
    bidders = pq.read_table(directory / "bid.parquet", columns=["bidder"]).group_by("bidder")
    counts = bidders.aggregate([([], "count_all")]).rename_columns(["bidder", "bid_count"])
    assert_same_rows(pa.Table.from_batches(answer(engine, "q12", directory)), counts)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_side_table_in_the_directory_is_read(tmp_path: Path, engine: str) -> None:
    write_dataset(tmp_path, NexmarkConfig(5000))
    (tmp_path / "side_input.csv").write_text("key,value\n" + "".join(f"{key},no. {key}\n" for key in range(0, 9999, 2)))
    bids = pq.read_table(tmp_path / "bid.parquet", columns=["auction", "bidder", "price", "dateTime"])
    even = bids.filter(pc.equal(pc.bit_wise_and(bids["auction"], 1), 0))
    assert 0 < even.num_rows < bids.num_rows
    values = [f"no. {auction % 10_000}" for auction in even["auction"].to_pylist()]
    actual = pa.Table.from_batches(answer(engine, "q13", tmp_path))
    assert_same_rows(actual, even.append_column("value", pa.array(values)))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_query_is_there(engine: str) -> None:
    forms = {form for name in NAMES for form in VARIANTS.get(name, (name,))}
    assert set(load(engine).QUERIES) == forms


@pytest.mark.parametrize("engine", but_for(ENGINES, ["duckdb"], "an engine that is compared; DuckDB stays"))
def test_a_run_counts_rows_and_seconds(engine: str, tmp_path: Path) -> None:
    write_dataset(tmp_path, NexmarkConfig(1000))
    ran = run_peer(engine, "q0", tmp_path, runs=3)
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["engine"], result["query"], result["rows"]) == (engine, "q0", 920)
    assert 0 < result["seconds"] < 60


def test_bad_requests_are_named(tmp_path: Path) -> None:
    assert "no engine 'spark'; there are duckdb, polars" in refused("spark", "q0", tmp_path)
    write_dataset(tmp_path, NexmarkConfig(100))
    assert "duckdb has no query 'q99'; it has q0, q1" in refused("duckdb", "q99", tmp_path)
    assert "runs is 0" in refused("duckdb", "q0", tmp_path, runs=0)
    assert run_peer("duckdb", "q0", tmp_path / "nowhere").returncode == 1


def refused(engine: str, query: str, directory: Path, runs: int = 1) -> str:
    ran = run_peer(engine, query, directory, runs)
    assert ran.returncode == 2
    return ran.stderr


def run_peer(engine: str, query: str, directory: Path, runs: int = 1) -> subprocess.CompletedProcess[str]:
    """Measure in a process of its own, as make bench does."""
    command = [sys.executable, "-m", "penstock.benchmarks.peers.runner", "--engine", engine, "--query", query]
    command += ["--directory", str(directory), "--runs", str(runs), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)
