"""Both sides of every measurement, on little data; query 11 has the result that one process gives."""

from pathlib import Path

import pytest

from penstock.benchmarks.crossing.links import LINKS
from penstock.benchmarks.crossing.measurements import measure_all
from penstock.benchmarks.crossing.report import render
from penstock.benchmarks.nexmark.dataset import ensure_dataset

EVENTS = 100_000


@pytest.mark.long("every link in processes of its own; test_links sends rows over each")
@pytest.mark.slow
def test_every_table_has_every_link(tmp_path: Path) -> None:
    figures = measure_all(ensure_dataset(tmp_path, EVENTS), EVENTS, runs=1, seconds=0.1, share=0.02)
    for link in LINKS:
        run = figures["sessions"][link]
        assert run["rows"] == figures["sessions"]["one process, parallelism 1"]["rows"] > 0
        assert EVENTS * 0.2 < run["crossed"] < EVENTS * 0.5
        assert figures["crossing"][f"picked 1024 {link}"]["cpu_ns"] > 0
    assert render(figures).count(f"| {LINKS[1]} |") == 5
