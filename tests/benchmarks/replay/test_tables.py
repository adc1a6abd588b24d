"""What the benchmarks of replays print, and whether they notice answers that differ."""

from dataclasses import replace
from pathlib import Path

from penstock.benchmarks.replay.rate import Measured, agree, render
from penstock.benchmarks.replay.rate_measurement import DUCKDB, OURS, QUERIES, Run
from penstock.benchmarks.replay.sections import write_section

ANSWERS = {"count": (1, 1_000_000, 0), "grouped": (9, 1_000_000, 77), "wide": (9, 1_000_000, 77)}


def measured(engine: str, java_mb: float) -> Measured:
    runs = [Run(query, seconds, 3.0, 0.5, ANSWERS[query]) for seconds in (9.0, 2.0, 4.0) for query in QUERIES]
    return Measured(engine, 4.0, runs, 1_500.0, java_mb, 500.0)


def test_the_first_run_is_told_apart() -> None:
    rows = render([measured(OURS, 1_000.0), measured(DUCKDB, 0.0)], 1_000_000, 250_000_000).splitlines()
    assert rows[0].startswith("1,000,000 Nexmark bids as JSON, 250 bytes each, in 4 partitions")
    assert rows[6:8] == [
        "| replay of the topic | 4.0 | 9.0 | 0.33 | 0.33 | 0.33 | 3.0 + 0.5 of the broker | 1,500 (Java 1,000) |",
        "| DuckDB, JSON lines | 4.0 | 9.0 | 0.33 | 0.33 | 0.33 | 3.0 | 1,500 |",
    ]


def test_answers_must_agree_and_be_whole() -> None:
    good = measured(OURS, 0.0)
    assert agree([good, measured(DUCKDB, 0.0)], 1_000_000)
    assert not agree([good], 999_999)
    wrong = replace(good, runs=[*good.runs[:-1], replace(good.runs[-1], answer=(9, 1_000_000, 78))])
    assert not agree([good, wrong], 1_000_000)


def test_a_section_is_replaced_where_it_stands(tmp_path: Path) -> None:
    page = tmp_path / "replay.md"
    for title, text in (("One", "1\n"), ("Two", "2"), ("One", "new \\1")):
        write_section(title, text, page)
    assert page.read_text() == "# Replays on Spark\n\n## One\n\nnew \\1\n\n## Two\n\n2\n"
