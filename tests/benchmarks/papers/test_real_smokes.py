"""A small run of each paper on real parts: it ends, is kept, is taken by its number again, and loses no row.

What it shows is not looked at: figures are those of whatever else this machine does.
"""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.papers.economics import real_scaling
from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_cases import moves
from penstock.benchmarks.papers.economics.real_moving_rows import moving_rows
from penstock.benchmarks.papers.economics.real_scaling import QUERY, TOGETHER
from penstock.benchmarks.papers.flink_er import real_cases as flink_er
from penstock.benchmarks.papers.flink_er.real_figures import written, wrong_counts
from penstock.benchmarks.papers.flink_er.real_rows import rows as flink_er_rows
from penstock.benchmarks.papers.justin import real_cases as justin
from penstock.benchmarks.papers.justin.real_figures import lost
from penstock.benchmarks.papers.justin.real_queries import EXACT_BIDS
from penstock.benchmarks.papers.justin.real_rows import rows as justin_rows
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.benchmarks.papers.sage import real_cases as sage
from penstock.benchmarks.papers.sage.real_figures import lateness
from penstock.benchmarks.papers.sage.real_rows import rows as sage_rows
from tests.command_line import penstock

pytestmark = pytest.mark.slow


def smoke(case: RealCase, folder: Path) -> SeenRun:
    """Return the first run of a case, which is made once and then read."""

    def had() -> SeenRun:
        ((run,),) = kept_runs([(case, 1)], folder, lambda what, done, whole: None).values()
        return run

    made = (had().folder / FINISHED).stat()
    again = had()
    assert again.folder.name == f"{case.name}-1" and (again.folder / FINISHED).stat() == made
    return again


def offered(run: SeenRun) -> int:
    return int(run.offered().rows[-1])


def test_flink_er_counts_every_view_once(tmp_path: Path) -> None:
    case = replace(flink_er.case(Scale.SMOKE, "yahoo"), loads=((0.2, 4.0), (0.4, 4.0)))
    run = smoke(case, tmp_path)
    found = written(run)
    assert sum(count for _, _, count in run.exact) == len(found.at_s) > 0 and wrong_counts(run, found) == 0
    assert flink_er_rows({case.name: [(run, found)]})


def test_sage_s_application_works_at_every_row(tmp_path: Path) -> None:
    case = replace(sage.case(Scale.SMOKE, sage.CPU), loads=((0.3, 8.0),), catch_up_s=60.0)
    run = smoke(case, tmp_path)
    assert len(lateness(run).at_s) == offered(run) > 0
    assert sage_rows({case.name: [run]})


def test_justin_s_query_counts_every_bid(tmp_path: Path) -> None:
    case = replace(
        justin.case(Scale.SMOKE, "q11", justin.DS2), loads=((0.3, 8.0),), exact=EXACT_BIDS, capacity=400.0,
        catch_up_s=60.0,
    )  # fmt: skip
    run = smoke(case, tmp_path)
    assert run.exact == offered(run) > 0 and lost(run) == 0
    assert justin_rows((), {case.name: [run]})


def test_taxi_drives_count_each_zone_without_a_gap_whatever_moves(tmp_path: Path) -> None:
    run = smoke(moves(4.0), tmp_path)
    for sink in SINKS:
        numbers: dict[int, list[int]] = {}
        for path in (run.folder / "job" / sink).glob("*.parquet"):
            table = pq.read_table(path)
            for zone, number in zip(table.column("zone").to_pylist(), table.column("n").to_pylist(), strict=True):
                numbers.setdefault(zone, []).append(number)
        assert numbers
        assert all(sorted(own) == list(range(1, len(own) + 1)) for own in numbers.values())
    assert [*moving_rows([run])]


def test_qod_beside_a_scaler_by_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(real_scaling.SECONDS, Scale.SMOKE, (4.0, 6.0))

    def told() -> list[str]:
        arguments = ("--real", "smoke", "--case", TOGETHER, "--out", tmp_path, "--json")
        assert penstock("papers", "economics", *arguments) in (0, 1)
        return capsys.readouterr().out.splitlines()

    rows, made = told(), (tmp_path / f"{TOGETHER}-1" / FINISHED).stat()
    assert told() == rows and (tmp_path / f"{TOGETHER}-1" / FINISHED).stat() == made
    named = [json.loads(row) for row in rows if "QoD with DS2" in row]
    assert len(named) == 3 and all(row["real"] and row["ours"]["draws"] == 1 for row in named)
    assert (tmp_path / "rows.jsonl").read_text().splitlines() == rows
    run = SeenRun(tmp_path / f"{TOGETHER}-1")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [run.folder.name]
    last = run.samples[-1]
    assert last["taken"][real_scaling.LOOK] + last["shed"] == sum(last["read"].values()) == offered(run) > 0
    assert list(run.queries) == [QUERY]
