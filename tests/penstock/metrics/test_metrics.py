"""Metrics of a job while it runs: checkpoints, state, lag; and rates between two snapshots."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.dsl.job import Job, embed
from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.core.clock import ManualClock
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.ledger import Ledger, OperatorLine
from penstock.engine.jobs.metric_rates import JobRates, OperatorRates, StateRates
from penstock.engine.jobs.metrics import (
    InstanceMetrics,
    JobMetrics,
    PartitionLag,
    SourceMetrics,
    StateMetrics,
    no_metrics,
)
from penstock.runs.run_options import RunOptions
from penstock.state.store import Accesses
from tests.penstock.front_door import orders
from tests.penstock.recovery.checkpoint_jobs import LONG_S, per_item, running

counts = st.integers(0, 10**12)
seconds = st.integers(1, 10**6)
times = st.integers(0, 10**6)
spent = st.builds(TimeSpent, *[times.map(lambda value: value * 1_000)] * 5)
names = st.text(min_size=1, max_size=8)


@st.composite
def snapshots(draw: st.DrawFn) -> JobMetrics:
    """Draw metrics as a job could have them; times are whole microseconds."""
    known = st.none() | st.integers(-(10**15), 10**15)
    lags = st.lists(st.builds(PartitionLag, names, counts), max_size=3, unique_by=lambda item: item.partition)
    waiting = lags.map(tuple)
    sources = draw(
        st.lists(st.builds(SourceMetrics, names, counts, known, known, waiting), unique_by=lambda item: item.source)
    )
    accesses = st.none() | st.builds(Accesses, counts, counts, times.map(lambda value: value * 1_000))
    states = draw(st.lists(st.builds(StateMetrics, names, counts, accesses), unique_by=lambda item: item.operator))
    lines = draw(st.lists(st.builds(OperatorLine, names, *[counts] * 7), unique_by=lambda item: item.operator))
    instances = draw(
        st.lists(
            st.builds(InstanceMetrics, names, st.integers(0, 3), spent, known, counts),
            unique_by=lambda item: (item.task, item.instance),
        )
    )
    figure = st.none() | counts
    return JobMetrics(
        name=draw(names),
        elapsed_ns=draw(seconds) * 1_000_000_000,
        source_rows=sum(source.rows for source in sources),
        ledger=Ledger(tuple(lines), ()),
        instances=tuple(instances),
        state_bytes=sum(state.bytes for state in states),
        sources=tuple(sources),
        states=tuple(states),
        checkpoints=draw(
            st.none()
            | st.builds(
                CheckpointMetrics,
                *[counts] * 4,
                figure,
                st.none() | times.map(lambda value: value * 1_000),
                figure,
                figure,
                st.none() | names,
                st.just(()),
                counts,
                st.none() | names,
            )
        ),
    )


def test_a_running_job_tells_of_its_checkpoints(tmp_path: Path) -> None:
    with running(tmp_path) as handle:
        before = handle.metrics().checkpoints
        assert before is not None and (before.committed, before.last_epoch) == (0, None)
        epoch = handle.savepoint("first", LONG_S)
        after = handle.metrics().checkpoints
    assert after is not None
    assert (after.begun, after.committed, after.aborted, after.restarts) == (1, 1, 0, 0)
    assert after.last_epoch == epoch and after.last_abort is None
    assert after.last_duration_ns is not None and after.last_duration_ns > 0
    assert after.last_uploaded_bytes is not None and after.last_uploaded_bytes > 0


def test_a_checkpoint_behind_the_end_of_all_inputs_took_no_longer_than_the_job(tmp_path: Path) -> None:
    totals = ps.read_memory([{"item": "a"}], job=Job()).name("rows").key_by("item").agg(n=ps.count()).name("totals")
    totals.write_black_hole(mode="changelog").name("out")
    options = {"checkpoint_dir": tmp_path / "checkpoints", "directory": tmp_path / "job", "checkpoint_interval": "1h"}
    metrics = totals.job.run("ends", **options)
    assert metrics.checkpoints is not None and metrics.checkpoints.committed == 1
    assert metrics.checkpoints.last_duration_ns is not None
    assert 0 < metrics.checkpoints.last_duration_ns < metrics.elapsed_ns


@pytest.mark.parametrize("options", [{}, {"state_bytes": 8 << 20}], ids=["unbounded", "budget"])
def test_the_state_at_the_end_is_told(tmp_path: Path, options: dict[str, int]) -> None:
    rows = [{"item": number % 100} for number in range(1_000)]
    totals = ps.read_memory(rows, job=Job()).key_by("item").agg(n=ps.count()).name("totals")
    totals.write_black_hole(mode="changelog")
    metrics = totals.job.run("ends", directory=tmp_path, **options)
    [state] = metrics.states
    assert state.operator == "totals"
    assert metrics.state_bytes == state.bytes > 100 * 8


def test_a_job_that_has_not_begun_has_metrics(tmp_path: Path) -> None:
    job = per_item(tmp_path)
    with_checkpoints = job.start("items", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job")
    assert with_checkpoints.metrics().checkpoints is not None
    with_checkpoints.stop()
    assert no_metrics("items").as_dict()["checkpoints"] is None


def test_restarts_are_counted(tmp_path: Path) -> None:
    failures = iter([ConnectionError("the outside failed")])

    def fail_once(rows: object) -> None:
        for error in failures:
            raise error

    job = ps.Job()
    ps.read_memory([{"n": 1}], job=job).name("numbers").for_each_batch(fail_once).name("each")
    metrics = job.run("numbers", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path, restart_delay="1ms")
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    assert metrics.source_rows == 1


def test_lag_is_that_of_the_watermark_behind_the_wall_clock(tmp_path: Path) -> None:
    stream = orders(watermark="1s")
    stream.key_by("item").agg(n=ps.count()).name("per item").collect()
    clock = ManualClock()
    embedded = embed(stream.job, RunOptions("test", directory=tmp_path), clock=clock)
    (head,) = embedded.build.heads()
    (source,) = embedded.metrics().sources
    assert (source.rows, source.watermark_us, source.lag_us) == (0, None, None)
    while not head.counters.rows_in:
        embedded.worker.step()
    (source,) = embedded.metrics().sources
    assert source.rows == 6
    if source.watermark_us is not None:
        assert source.lag_us == clock.wall_us() - source.watermark_us
    embedded.run()
    metrics = embedded.metrics()
    assert metrics.sources[0].lag_us is None
    assert [state.operator for state in metrics.states] == ["per item"]
    assert sum(state.bytes for state in metrics.states) == metrics.state_bytes > 0
    assert metrics.checkpoints is None


def test_rates_are_differences_over_time() -> None:
    before = replace(
        no_metrics("job"),
        elapsed_ns=1_000_000_000,
        source_rows=100,
        ledger=Ledger((OperatorLine("sum", 100, 0, 100, 0, 0, 0, 10),), ()),
        instances=(InstanceMetrics("sum", 0, TimeSpent(10, 20, 30, 40, 0), None, 0),),
        sources=(SourceMetrics("in", 100, None, None),),
        states=(StateMetrics("sum", 5, Accesses(10, 10, 0)),),
    )
    after = replace(
        before,
        elapsed_ns=3_000_000_000,
        source_rows=300,
        ledger=Ledger((OperatorLine("sum", 300, 0, 300, 0, 0, 0, 12),), ()),
        instances=(InstanceMetrics("sum", 0, TimeSpent(40, 20, 40, 90, 10), None, 0),),
        sources=(SourceMetrics("in", 300, None, None),),
        states=(StateMetrics("sum", 5, Accesses(30, 25, 500)),),
    )
    rates = JobRates(before, after)
    assert (rates.seconds, rates.source_rows, rates.sources()) == (2, 100, {"in": 100})
    assert rates.operators() == {"sum": OperatorRates(100, 1)}
    assert rates.states() == {"sum": StateRates(10, 0.75, 100)}
    shares = rates.shares(after.instances[0])
    assert (shares.busy, shares.core_wait, shares.input_wait, shares.output_wait) == (0.3, 0.1, 0.5, 0.1)
    assert JobRates(None, after).source_rows == pytest.approx(100)


@settings(max_examples=50)
@given(before=snapshots() | st.none(), after=snapshots())
def test_no_rate_is_negative_and_shares_add_up(before: JobMetrics | None, after: JobMetrics) -> None:
    rates = JobRates(before, after)
    assert rates.seconds > 0
    figures = [rates.source_rows, *rates.sources().values()]
    figures += [rate for found in rates.operators().values() for rate in (found.rows_in, found.rows_out)]
    assert all(rate >= 0 for rate in figures)
    for instance in after.instances:
        shares = rates.shares(instance)
        parts = (shares.busy, shares.remote_wait, shares.core_wait, shares.input_wait, shares.output_wait)
        assert sum(parts) == pytest.approx(1) or not any(parts)
