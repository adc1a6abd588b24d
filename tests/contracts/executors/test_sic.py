"""Shedding by SIC on every executor: queries that are offered too much stand equally, every row is accounted for."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.errors import OptionError
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import Peak, dear
from tests.long_cases import but_for

WAYS: dict[str, dict[str, Any]] = {
    "embedded": {},
    "processes": {"executor": "processes", "task_managers": 1},
    "ray": {"executor": "ray", "task_managers": 1, "attached": True},
}
CASES = but_for(
    [(shed, way) for way in WAYS for shed in ("sic", "both")],
    [("sic", "embedded")],
    "half a minute of overload; tests/shedding/test_sic_shedding.py closes the loop on a virtual node",
)

QUERIES = {"seldom": (400, 3_000_000), "often": (2_000, 1_000_000), "cheap": (4_000, 100_000)}
"""Rows/s that come, and the time on a core that one takes, ns."""


def start(folder: Path, control: ps.Control, **options: Any) -> Any:
    job = ps.Job()
    for name, (rate, row_ns) in QUERIES.items():
        rows = ps.read(Peak(rate, 1e9), job=job).name(f"{name} rows").map_batches(partial(dear, row_ns=row_ns))
        rows.name(f"{name} side").write_parquet(folder / name).name(name).with_min_accuracy(0.01)
    return job.start("sic", control=control, batch_rows=20, directory=folder / "job", **options)


@pytest.mark.parametrize(("shed", "way"), CASES)
def test_what_is_too_much_is_dropped_before_it_is_decoded(tmp_path: Path, way: str, shed: str) -> None:
    # With both, SIC has dropped what waited before rates come down for the first time.
    period_s = 1 if shed == "sic" else 5
    control = ps.Control(shed=shed, mode="act", shed_backlog=True, period_s=period_s)  # type: ignore[arg-type]
    handle = start(tmp_path, control, **WAYS[way])

    seen: dict[str, int] = {}

    def all_are_shed() -> bool:
        metrics = handle.metrics()
        taken = {line.operator: line for line in metrics.ledger.operators}
        known = metrics.shedding is not None and all(each.current < 0.9 for each in metrics.shedding.queries)
        if not (known and all(taken[f"{name} rows"].shed > 50 for name in QUERIES)):
            return False
        # Metrics of a task manager are a second old; what comes some seconds later is written by sinks that know.
        rows = {name: taken[name].rows_in for name in QUERIES} | {"": metrics.source_rows}
        seen.update({} if seen else rows)
        offered = 4 * sum(rate for rate, _ in QUERIES.values())
        return rows[""] > seen[""] + offered and all(rows[name] > seen[name] + 20 for name in QUERIES)

    until(all_are_shed, handle)
    metrics: JobMetrics = handle.stop()
    check_ledger(metrics.ledger, ended=True)
    assert metrics.ledger.shed > 0
    for name in QUERIES:
        written = pq.read_table(tmp_path / name, columns=["accuracy", "biased"])
        if shed == "sic":
            written = written.filter(written.column("biased"))
        shares = [share for share in written.column("accuracy").to_pylist() if share != 1.0]
        assert shares and all(0.0 < share < 1.0 for share in shares)


def test_minimums_that_cannot_be_met_are_said_and_sources_held_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = ps.Job()
    rows = ps.read(Peak(3_000, 1e9), job=job).name("due").map_batches(partial(dear, row_ns=1_000_000)).name("dear")
    rows.write_black_hole().name("much").with_min_accuracy(0.9)
    control = ps.Control(shed="sic", mode="act", period_s=1)
    handle = job.start("sic", control=control, batch_rows=20, directory=tmp_path)

    def is_said() -> bool:
        shedding = handle.metrics().shedding
        return shedding is not None and "'much'" in shedding.infeasible

    until(is_said, handle)
    metrics = handle.stop()
    assert metrics.ledger.shed <= 0.11 * metrics.source_rows
    assert capfd.readouterr().err.count("INFEASIBLE: minimum accuracies cannot be met") == 1


def test_what_needs_a_sample_is_refused(tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read(Peak(10), job=job).key_by("key").agg(n=ps.count())
    rows.write_black_hole(mode="changelog").name("few").with_max_error(0.1)
    with pytest.raises(OptionError, match="maximum error"):
        job.start("sic", control=ps.Control(shed="sic", mode="act"), directory=tmp_path)
    with pytest.raises(OptionError, match="mode='act'"):
        ps.Control(shed="sic")
