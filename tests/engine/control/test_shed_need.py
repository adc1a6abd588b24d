"""What shedders by SIC drop of what waits, scalers are told as what rates drop: it was offered, and not taken."""

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.engine.control.chosen_policies import check_policies
from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.part_reading import read_part
from penstock.engine.control.reading import ReadingMerger
from penstock.engine.control.steering import OWNS, role_of
from penstock.engine.dataflow.worker import Ran
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.query_routes import query_names
from penstock.model.config import LoopOptions
from penstock.model.control import BY_SIC, Control
from penstock.model.sic import Admission, SicGroup, SicTerms
from penstock.model.snapshot import MachineColumns
from penstock.scheduler.ownership import Level
from penstock.scheduler.shed_rows import shed_shares
from tests.engine.dataflow.test_sic_loss import Seconds
from tests.engine.support import ManualClock

OPTIONS = LoopOptions(batch_rows=10)


def test_a_scaler_sees_what_was_dropped_by_sic(tmp_path: Path) -> None:
    job, clock = ps.Job(), ManualClock()
    rows = ps.read(Seconds(), time="at", job=job).name("seconds")
    rows.rebalance().select("x").write_black_hole().name("out").with_min_accuracy(0.1)
    plan = job.plan(2)
    runs = EmbeddedJob(JobPlan("seconds", plan, OPTIONS, tmp_path), clock=clock)
    terms = SicTerms(query_names(plan.graph), {"seconds": (0.01,)}, (SicGroup("seconds", (0,)),), sheds="fair")
    runs.build.set_sic(terms)
    merger = ReadingMerger(plan, OPTIONS)
    before = merger.merge(clock.monotonic_ns(), {"here": read_part(runs.build, clock.monotonic_ns())})
    head = next(head for head in runs.build.heads() if "0" in head.positions())
    head.admit({"0": [Admission(40, True), Admission(60, False)]})
    for instance in runs.build.instances:
        instance.on_change()
    _run(runs, clock)
    reading = merger.merge(clock.monotonic_ns(), {"here": read_part(runs.build, clock.monotonic_ns())})
    snapshot = cluster_snapshot("seconds", 1, before, reading, MachineColumns(("here",), np.ones(1)), "here")
    assert snapshot.partitions.consumed is not None and snapshot.partitions.consumed.sum() == 100
    source = snapshot.tasks.is_source
    assert shed_shares(snapshot)[source] == pytest.approx(0.6)


def _run(runs: EmbeddedJob, clock: ManualClock) -> None:
    for _ in range(400):
        if not isinstance(runs.worker.step(), Ran):
            clock.advance_ns(50_000_000)


@pytest.mark.parametrize("shed", BY_SIC)
@pytest.mark.parametrize("scaler", [name for name in OWNS if role_of(name).level >= Level.SIZE])
def test_who_drops_by_sic_may_do_so_beside_each_scaler(shed: str, scaler: str) -> None:
    check_policies(Control(shed=shed, scale=scaler, mode="act"))
