"""What is read in the parts of a job, and said, makes the snapshot of the whole."""

from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.part_reading import PartReading, read_part
from penstock.engine.control.reading import Reading, ReadingMerger
from penstock.engine.control.reading_book import FRESH_NS, ReadingBook
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.messages import Readings, decode_for_head, encode
from penstock.engine.executors.managers.part_readings import part_of, said
from penstock.model.columns import Floats
from penstock.model.snapshot import MachineColumns
from tests.engine.control.readings import MANAGERS, OPTIONS, SECOND_NS, graph, machine, part, ran
from tests.engine.control.test_cluster_snapshot import make

MACHINES = MachineColumns(MANAGERS, np.array([1.0, 1.0]))
GRAPH = graph()
NAMES = [name for task in GRAPH.tasks for name in GRAPH.instances(task)]
APART = ("tm-0", "tm-1", "tm-0", "tm-1")


def test_state_that_lies_by_no_keys_has_no_budget() -> None:
    job = ps.Job()
    rows = ps.read_memory([{"key": 1}], job=job).name("rows")
    rows.key_by("key").agg(n=ps.count()).name("by key").write_black_hole(mode="changelog")
    rows.agg(n=ps.count()).name("in all").write_black_hole(mode="changelog")
    plan = job.plan(2)
    read = ReadingMerger(plan, replace(OPTIONS, state_bytes=4 << 20)).merge(SECOND_NS, {})
    named = {plan.name(task).split(" -> ")[0]: task.id for task in plan.tasks}
    budgets = {name: read.state_budget[read.layout.first[task]] for name, task in named.items()}
    assert budgets["by key"] == 4 << 20 and budgets["in all"] == 0.0


def half(whole: PartReading, number: int) -> PartReading:
    """Return what was read of the instances of a number, as it comes to a head."""
    tables = (whole.instances, whole.sent, whole.received, whole.partitions)
    own = [table[table["number"] == number] for table in tables]
    names = tuple(compress(whole.partition_names, (whole.partitions["number"] == number).tolist()))
    read = machine(whole.time_ns / 1e9)
    message = decode_for_head(encode(said(read, PartReading(whole.time_ns, *own, names))))
    assert isinstance(message, Readings)
    made = part_of(message)
    assert made is not None
    return replace(made, time_ns=whole.time_ns)


def test_halves_of_a_job_that_were_sent_make_up_the_whole(tmp_path: Path) -> None:
    job = make(tmp_path)
    assert job.attempt.proceed(lambda: False, None, None) is None
    job.attempt.finish()
    plan, whole = job.build.graph, read_part(job.build, SystemClock().monotonic_ns())
    parts = {name: half(whole, number) for number, name in enumerate(MANAGERS)}
    places = ["tm-0", "tm-1"] * 3
    apart = ReadingMerger(plan, OPTIONS).merge(SECOND_NS, parts)
    assert [apart.places[place] for place in apart.place.tolist()] == places
    one, other = (
        cluster_snapshot("test", 1, None, reading, MACHINES, places).as_dict()
        for reading in (apart, ReadingMerger(plan, OPTIONS).merge(SECOND_NS, {"tm-0": whole}))
    )
    assert one == other and sum(one["outputs"]["records_out"]) > 0


def windowed(parts: tuple[PartReading, PartReading], process_s: tuple[float, float] | None = None) -> Floats:
    """Return the CPU of the instances of one task manager in a window of 1 s, in seconds."""
    before, after = (
        ReadingMerger(GRAPH, OPTIONS).merge(time_ns, {"tm-0": read}, {} if seconds is None else {"tm-0": seconds * 1e9})
        for time_ns, read, seconds in zip((SECOND_NS, 2 * SECOND_NS), parts, process_s or (None, None), strict=True)
    )
    cpu_ns = cluster_snapshot("test", 1, before, after, MACHINES, ["tm-0"] * 4).instances.cpu_ns
    assert cpu_ns is not None
    return cpu_ns / 1e9


def test_what_a_process_took_beside_its_steps_is_shared_out() -> None:
    parts = (
        part(10, {(0, 0): ran(5, 1.0), (1, 0): ran(5, 1.0)}),
        part(11, {(0, 0): ran(6, 1.3), (1, 0): ran(6, 1.1)}),
    )
    np.testing.assert_allclose(windowed(parts), [0.3, np.nan, 0.1, np.nan])
    shared = windowed(parts, (3.0, 3.8))
    np.testing.assert_allclose(shared, [0.6, np.nan, 0.2, np.nan])
    assert np.nansum(shared) == pytest.approx(0.8)
    # Steps that used no core at all: the overhead is of all alike.
    still = parts[0], part(11, {(0, 0): ran(6, 1.0), (1, 0): ran(6, 1.0)})
    np.testing.assert_allclose(windowed(still, (3.0, 3.2)), [0.1, np.nan, 0.1, np.nan])


def test_readings_at_moments_of_their_own_are_scaled_to_the_window() -> None:
    parts = part(10, {(0, 0): ran(5, 1.0, 100)}), part(12, {(0, 0): ran(7, 2.0, 300)})
    before, after = (
        ReadingMerger(GRAPH, OPTIONS).merge(time_ns, {"tm-0": read})
        for time_ns, read in zip((SECOND_NS, 2 * SECOND_NS), parts, strict=True)
    )
    instances = cluster_snapshot("test", 1, before, after, MACHINES, ["tm-0"] * 4).instances
    assert instances.records_in is not None and instances.records_in[0] == 100
    times = ("busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns")
    assert sum(getattr(instances, name)[0] for name in times) == pytest.approx(1e9)


def test_an_instance_that_is_elsewhere_now_has_no_counts() -> None:
    def reading(time_ns: int, place: str, seconds: float) -> Reading:
        return ReadingMerger(GRAPH, OPTIONS).merge(
            time_ns, {place: part(10 + seconds, {(0, 0): ran(5 + seconds, 1.0)})}
        )

    moved = cluster_snapshot(
        "test", 1, reading(SECOND_NS, "tm-0", 0), reading(2 * SECOND_NS, "tm-1", 1), MACHINES, APART
    )
    assert moved.instances.records_in is not None and np.isnan(moved.instances.records_in[0])


def book(*seconds: float) -> ReadingBook:
    """Return a book in which the first task manager was heard at these seconds, with its two instances."""
    heard = ReadingBook("test", ReadingMerger(GRAPH, OPTIONS), 0)
    for second in seconds:
        read = part(second, {(0, 0): ran(5 + second, second / 4), (1, 0): ran(5 + second, second / 4)})
        heard.hear("tm-0", machine(second, second / 2), read, int(second * SECOND_NS))
    return heard


def test_what_was_not_said_lately_is_not_measured() -> None:
    places = dict(zip(NAMES, APART, strict=True))
    fresh = book(1, 2).snapshot(MANAGERS, "caller", places, {}, 2 * SECOND_NS)
    np.testing.assert_allclose(fresh.instances.cpu_ns / fresh.window_s, [0.25e9, np.nan] * 2)  # type: ignore[operator]
    np.testing.assert_allclose(fresh.machines.cpu_percent, [50.0, np.nan, np.nan])  # type: ignore[arg-type]
    late = book(1, 2).snapshot(MANAGERS, "caller", places, {}, 2 * SECOND_NS + FRESH_NS + 1)
    assert late.instances.cpu_ns is None and late.machines.cpu_percent is None
    assert late.instances.is_running.all(), "what is deployed runs, as far as anyone knows"
    gone = book(1, 2)
    gone.forget("tm-0")
    assert gone.snapshot(MANAGERS, "caller", places, {}, 2 * SECOND_NS).machines.cpu_percent is None


def test_the_first_reading_of_a_process_has_no_window() -> None:
    once = book(1).snapshot(MANAGERS, "caller", dict(zip(NAMES, APART, strict=True)), {}, SECOND_NS)
    assert once.machines.cpu_percent is None and once.instances.records_in is not None
    assert np.isnan(once.instances.records_in).all()


def test_an_instance_that_has_ended_keeps_its_place_and_one_without_waits() -> None:
    heard = ReadingBook("test", ReadingMerger(GRAPH, OPTIONS), 0)
    ended = {(0, 0): {**ran(5, 1.0), "is_running": 0.0}}
    heard.hear("tm-0", machine(1), part(1, ended), SECOND_NS)
    snapshot = heard.snapshot(MANAGERS, "caller", {NAMES[0]: "tm-0", NAMES[1]: "tm-7"}, {}, SECOND_NS)
    assert snapshot.instances.is_running.tolist() == [True, True, False, False]
    assert snapshot.machines.name == ("tm-0", "tm-1", "caller", "tm-7")
    assert snapshot.instances.age_s is not None and np.isnan(snapshot.instances.age_s[2:]).all()
