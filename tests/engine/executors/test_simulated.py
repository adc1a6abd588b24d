"""Runs under faults put out what an undisturbed run does; a seed reproduces its trace; the rest is left out."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pyarrow as pa
import pytest

import penstock as ps
from penstock import count, sum_
from penstock.engine.executors.simulated import Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import KINDS, Faults
from penstock.engine.executors.simulation.outputs import difference
from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks
from penstock.model.errors import OptionError, PlanError
from penstock.model.function_sink import FunctionSink
from tests.engine.executors.simulated_support import PIPELINES, read, rows, shared
from tests.long_cases import but_for

pytestmark = pytest.mark.xdist_group("simulated")

SEEDS = range(1, 71)
FEW = range(1, 7)

POINTS = {
    "checkpoint.before_commit",
    "checkpoint.after_commit",
    "checkpoint.before_upload",
    "checkpoint.file.before_upload",
    "checkpoint.file.uploaded",
    "checkpoint.manifest.before_publish",
    "checkpoint.manifest.published",
    "checkpoint.retain.before_manifest",
    "checkpoint.retain.manifest_deleted",
    "files.write.before_sync",
    "files.write.before_rename",
    "files.write.renamed",
    "files.write.done",
    "instance.barrier.passed",
    "job.loaded",
    "job.restored",
}
"""Failpoints at which power must be lost at least once."""


@cache
def result(name, seed):
    """Run a pipeline under a seed, once."""
    return shared(name).run(seed)


def results(name, seeds=SEEDS):
    """Run a pipeline under every seed."""
    return [result(name, seed) for seed in seeds]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_few_seeds_put_out_what_the_undisturbed_run_does(name):
    assert [(result.seed, result.problem) for result in results(name, FEW) if result.problem is not None] == []


@pytest.mark.parametrize(
    "name", but_for(PIPELINES, ["tumbled"], "seventy seeds; six seeds of it, and all of [tumbled]")
)
def test_every_seed_puts_out_what_the_undisturbed_run_does(name):
    assert [(result.seed, result.problem) for result in results(name) if result.problem is not None] == []


def test_the_seeds_of_a_pipeline_see_most_points():
    crashed = {point for result in results("tumbled") for point in result.crashed_at}
    assert len(POINTS & crashed) > 8


@pytest.mark.long("seventy seeds of every pipeline; test_the_seeds_of_a_pipeline_see_most_points")
def test_the_seeds_see_crashes_everywhere():
    everything = [result for name in PIPELINES for result in results(name)]
    crashed = sum((Counter(result.crashed_at) for result in everything), Counter())
    assert set(crashed) >= POINTS
    assert sum(result.crashes for result in everything) > len(everything)
    assert sum(result.rescaled for result in everything) > len(everything) / 4
    assert sum(result.committed for result in everything) > 2 * len(everything)


@pytest.mark.long("seventy seeds of [apart]; test_simulated_pages[apart] sees regions restart")
def test_regions_restart_while_the_rest_runs_on():
    told = [line for result in results("apart") for line in result.story if "RESTARTED" in line]
    assert sum("while the rest ran on" in line for line in told) > 10
    assert any("RESTARTED: the job from" in line for line in told)


def test_undisturbed_is_what_the_embedded_executor_puts_out():
    job = ps.Job()
    out = read(job, 2).key_by("key").window(ps.tumbling("5s")).agg(n=count(), total=sum_("value")).collect()
    job.run("embedded")
    assert difference("out", shared("tumbled").expected["out"], out.table()) is None


@pytest.mark.parametrize("name", PIPELINES)
def test_a_seed_reproduces_its_trace(name):
    again = shared(name).run(3)
    assert again.trace == result(name, 3).trace
    assert again.trace != result(name, 4).trace


def test_a_seed_reproduces_its_trace_in_another_process():
    script = (
        "import hashlib; from tests.engine.executors.simulated_support import shared; "
        "print(hashlib.sha256(shared('joined').run(3).trace.encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == hashlib.sha256(result("joined", 3).trace.encode()).hexdigest()


def test_without_faults_nothing_goes_wrong():
    calm = Simulation(shared("tumbled").recording, faults=Faults.of(())).run(1)
    assert (calm.problem, calm.crashes) == (None, 0)
    assert not any("FAULT" in line for line in calm.story)


def test_faults_are_named():
    assert Faults.of(["crash", " disk"]) == Faults(crash=True, delay=False, cut=False, disk=True)
    assert Faults.of(KINDS) == Faults()
    with pytest.raises(OptionError, match="faults are crash, delay, cut, disk"):
        Faults.of(["earthquake"])


def test_the_users_sinks_are_never_written():
    job = ps.Job()
    received = []
    read(job, 1).write(FunctionSink(received.append)).name("out")
    simulation = Simulation(record_pipeline(job.graph, 100))
    assert simulation.run(1).problem is None
    assert received == []
    assert simulation.expected["out"].num_rows == 100


def test_queries_under_contract_say_the_same_of_their_results_under_faults():
    job = ps.Job()
    keyed = read(job, 1).key_by("key")
    keyed.agg(n=count(), total=sum_("value")).name("counts").collect().with_min_accuracy(0.5).name("out")
    none = keyed.window(ps.tumbling("5s")).agg(n=count()).name("windows").filter(ps.col("n") < 0)
    none.collect().with_min_accuracy(0.5).name("nothing")
    simulation = Simulation(record_pipeline(job.graph, 100))
    assert [simulation.run(seed).problem for seed in range(1, 9)] == [None] * 8
    added = ["accuracy", "biased", "n_low", "n_high", "n_certified"]
    assert simulation.expected["nothing"].schema.names == ["key", "window_start", "window_end", "n", *added]
    assert simulation.expected["out"].schema.names[:5] == ["key", "n", "total", "accuracy", "biased"]
    assert set(simulation.expected["out"]["accuracy"].to_pylist()) == {1.0}


def test_rows_out_of_order_raise_the_watermark_delay_and_a_cut_source_is_told():
    job = ps.Job()
    source = ps.read_memory(rows(1), time="at", job=job).name("rows")
    source.key_by("key").window(ps.tumbling("5s")).agg(n=count()).name("windows").collect().name("out")
    recording = record_pipeline(job.graph, 150)
    assert recording.rows == 150
    assert "the first 150 rows were read" in recording.notes[0]
    assert "its watermark delay is raised from 0 us" in recording.notes[1]


def test_sinks_of_what_is_not_promised_are_left_out():
    job = ps.Job()
    keyed = read(job, 1).key_by("key")
    windows = keyed.window(ps.tumbling("5s")).agg(n=count()).name("windows")
    windows.collect().name("kept")
    windows.side_output("late").collect().name("late")
    keyed.deduplicate(order="arrival").name("first").collect().name("arrival")
    left_out = timing_dependent_sinks(job.graph)
    assert set(left_out) == {"late", "arrival"}
    assert "late rows of 'windows'" in left_out["late"]
    assert record_pipeline(job.graph, 100).left_out == left_out


def test_a_pipeline_that_promises_nothing_is_refused():
    job = ps.Job()
    read(job, 1).key_by("key").deduplicate(order="arrival").name("first").collect().name("out")
    with pytest.raises(PlanError, match="nothing to compare"):
        record_pipeline(job.graph, 100)


def test_differences_are_of_multisets_and_forgive_the_last_digits_of_sums():
    one = pa.table({"key": [1, 2, 2], "sum": [0.1 + 0.2, 1.0, 1.0]})
    close = pa.table({"key": [2, 1, 2], "sum": [1.0, 0.3, 1.0]})
    other = pa.table({"key": [2, 1], "sum": [1.0, 0.4]})
    assert difference("out", one, close) is None
    found = difference("out", one, other)
    assert found is not None
    assert (found.missing, found.extra) == (2, 1)
