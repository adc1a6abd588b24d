"""Measures one Nexmark query on one batch engine, held to one thread, in a process of its own.

``python -m penstock.benchmarks.peers.runner``, called by ``make bench``.
"""

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from penstock.model.errors import OptionError

ENGINES = ("duckdb", "polars", "datafusion")

VARIANTS: Mapping[str, tuple[str, ...]] = {"q5": ("q5", "q5_panes")}
"""Queries that are there in more than one form: the reference's first, then rewritten by hand."""

# Read by the engines when they are imported, so they must be in the environment before that.
_ONE_THREAD = {
    "POLARS_MAX_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class PeerResult:
    """The time that one engine took for one query, and the rows of its result."""

    engine: str
    query: str
    seconds: float
    """Median over the runs, from the query's text to its last row as Arrow; reading included."""
    rows: int
    """Rows of the result."""


class Peer(Protocol):
    """A module of queries for one engine, ``<engine>_queries``, as the runner calls it."""

    QUERIES: Mapping[str, object]

    def connect(self, directory: Path) -> Any:
        """A session over the three Parquet files."""

    def answer(self, session: Any, query: str) -> Iterable[Any]:
        """All rows of a query as Arrow record batches."""


def measure(
    engine: str,
    query: str,
    directory: str | Path,
    runs: int = 1,
    core: int | None = None,
    warm_up: str | Path | None = None,
) -> PeerResult:
    """Measure in this process, which is held to one core from here on.

    ``warm_up`` is a small data set to answer the query over first, unmeasured.
    """
    _keep_to_one_thread(core)
    peer = load(engine)
    _check_query(engine, peer, query)
    if runs < 1:
        raise OptionError(f"runs is {runs}; it must be above 0.")
    if warm_up is not None:
        for _ in peer.answer(peer.connect(Path(warm_up)), query):
            pass
    session = peer.connect(Path(directory))
    seconds, rows = [], 0
    for _ in range(runs):
        begin = time.perf_counter_ns()
        rows = sum(batch.num_rows for batch in peer.answer(session, query))
        seconds.append((time.perf_counter_ns() - begin) / 1e9)
    return PeerResult(engine, query, statistics.median(seconds), rows)


def answer(engine: str, query: str, directory: str | Path) -> Iterator[Any]:
    """The result of a query as Arrow record batches, computed in this process."""
    peer = load(engine)
    _check_query(engine, peer, query)
    yield from peer.answer(peer.connect(Path(directory)), query)


def load(engine: str) -> Peer:
    """The module of an engine; imports the engine."""
    _check_engine(engine)
    return cast(Peer, importlib.import_module(f"penstock.benchmarks.peers.{engine}_queries"))


def _check_engine(engine: str) -> None:
    if engine not in ENGINES:
        raise OptionError(f"There is no engine {engine!r}; there are {', '.join(ENGINES)}.")


def _check_query(engine: str, peer: Peer, query: str) -> None:
    if query not in peer.QUERIES:
        names = sorted(peer.QUERIES, key=lambda name: (int(name[1:].partition("_")[0]), name))
        raise OptionError(f"{engine} has no query {query!r}; it has {', '.join(names)}.")


def _keep_to_one_thread(core: int | None) -> None:
    os.environ.update(_ONE_THREAD)
    if sys.platform == "linux":
        allowed = os.sched_getaffinity(0)
        if core is not None and core not in allowed:
            raise OptionError(f"core is {core}; this process may use {sorted(allowed)}.")
        os.sched_setaffinity(0, {max(allowed) if core is None else core})


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.peers.runner")
    parser.add_argument("--engine", required=True, help=", ".join(ENGINES))
    parser.add_argument("--query", required=True, help="q0, q1, ...")
    parser.add_argument("--directory", required=True, help="where the three Parquet files are")
    parser.add_argument("--runs", type=int, default=1, help="report the median of this many runs")
    parser.add_argument("--core", type=int, help="the core to keep to (Linux)")
    parser.add_argument("--warm-up", help="a small data set to answer the query over first")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    arguments = parser.parse_args()
    try:
        result = measure(
            arguments.engine, arguments.query, arguments.directory, arguments.runs, arguments.core, arguments.warm_up
        )
    except OptionError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(asdict(result)))
    else:
        print(f"{result.engine} {result.query}: {result.rows:,} rows in {result.seconds:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
