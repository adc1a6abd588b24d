"""``make bench``: which queries it measures, and its table when engines fail."""

from pathlib import Path

import pytest

from penstock.benchmarks.nexmark.bench import OURS, PEERS, RATIOS, QueryTimings, main, render
from penstock.benchmarks.nexmark.queries import NAMES


def line(ours: float | None, *peers: float | None, query: str = "q23") -> QueryTimings:
    return QueryTimings(query, 1_000_000, dict(zip((OURS, *PEERS), (ours, *peers), strict=True)), peak_rss_mb=100.0)


def test_every_query_has_a_floor_and_a_goal() -> None:
    assert set(RATIOS) == set(NAMES)
    assert all(0 < floor < goal for floor, goal in RATIOS.values())


def test_the_ratio_is_to_the_best_peer_that_ran() -> None:
    assert line(2.0, None, 1.0, 4.0).ratio == 0.5
    assert line(None, 1.0, 1.0, 1.0).ratio is None
    assert line(1.0, None, None, None).ratio is None


def test_failures_are_in_the_table() -> None:
    lines = [line(2.0, None, 1.0, 4.0), line(1.0, None, None, None, query="q6"), line(None, 1.0, 1.0, 1.0, query="q9")]
    rows = [row for row in render(lines, runs=1).splitlines() if row.startswith("| q")]
    assert rows[1:] == [
        "| q23 | 0.50 | failed | 1.00 | 0.25 | **0.50** | 0.25 | 0.80 | 100 |",
        "| q6 | 1.00 | failed | failed | failed | - | 0.25 | 0.80 | 100 |",
        "| q9 | failed | 1.00 | 1.00 | 1.00 | - | 0.25 | 0.80 | 100 |",
    ]
    assert "Geometric mean of the ratios: 0.50" in render(lines, runs=1)
    assert "Geometric mean" not in render(lines[1:], runs=1)


def test_only_the_queries_asked_for_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--events", "5000", "--runs", "1", "--directory", str(tmp_path), "--no-write"]
    assert main([*options, "--queries", "q3"]) == 0
    printed = capsys.readouterr().out
    rows = [row for row in printed.splitlines() if row.startswith("| q")]
    assert [row.split()[1] for row in rows] == ["query", "q3"]
    assert "failed" not in printed
    with pytest.raises(SystemExit):
        main([*options, "--queries", "q3,q99"])
    assert "there is no query 'q99'; choose from q0, q1" in capsys.readouterr().err


def test_outside_a_checkout_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("penstock.benchmarks.nexmark.bench.PEER_QUERIES", "penstock.benchmarks.absent")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "run make bench in a checkout" in capsys.readouterr().err
