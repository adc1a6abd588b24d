"""A head actor acts on its job, by name from elsewhere: it sheds a peak, heeds limits, and changes parallelism."""

import os
import signal
from pathlib import Path

import pytest

import penstock as ps
from penstock.cluster.heads import Head, HeadAwayError, find_head
from penstock.model.control import Limits
from penstock.model.errors import OptionError, RetryableError, UserError
from penstock.runs.steering import drained, place_on, rescaled
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.test_memory import LITTLE, check, give, held, keeping
from tests.contracts.executors.test_memory import ROWS as KEPT_ROWS
from tests.contracts.executors.test_overload import Peak, dear
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.mark.long("half a minute of overload; test_parallelism_changes_on_ray has a head actor that acts")
def test_a_peak_is_shed_and_limits_change_by_name(tmp_path: Path, on_ray: RayCluster) -> None:
    job = ps.Job()
    rows = ps.read(Peak(peak_s=1e9), job=job).name("due")
    rows.map_batches(dear).name("dear").write_black_hole().name("sink").with_min_accuracy(0.05)
    control = ps.Control(shed="qod", mode="act", period_s=2)
    handle = job.start("peak", control=control, batch_rows=20, directory=tmp_path, executor="ray", task_managers=1)

    def keeps() -> float:
        shedding = handle.metrics().shedding
        return 1.0 if shedding is None else dict(shedding.sources).get("due", 1.0)

    until(lambda: keeps() < 0.7)
    with pytest.raises(OptionError, match="'hot'"):
        handle.limit("hot", min_accuracy=0.5)
    handle.limit("sink", min_accuracy=0.9)
    until(lambda: 0.9 <= keeps() < 1.0)
    find_head("peak").change_limits(Limits(shed="off"))
    until(lambda: keeps() == 1.0)
    metrics = handle.stop()
    assert metrics.ledger.shed > 0


def kill_head(head: Head) -> None:
    """Kill a head's process, and wait until Ray has started it anew."""
    process = head.pid()
    os.kill(process, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return head.pid() != process
        except HeadAwayError:
            return False

    until(is_back)


def is_adopted(head: Head) -> bool:
    """Return whether a head that follows another goes on with what is there; it fails if it begins anew."""
    try:
        told = [line for line in head.report(0).lines if "ADOPTED" in line]
    except HeadAwayError:
        return False
    assert not any("NOT ADOPTED" in line for line in told), told
    return bool(told)


def test_parallelism_changes_on_ray(tmp_path: Path, on_ray: RayCluster) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="ray", task_managers=2, parallelism=2)
    job.give(1_000)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 1_000, handle)
    preview = handle.preview_rescale("per second", 3)
    assert preview.before == {"per second": 2, "windows": 2} and preview.after == {"per second": 3, "windows": 3}
    said: list[str] = []
    summary = rescaled(find_head("metered"), {"per second": 3}, said.append)
    assert summary.after == preview.after and summary.key_groups_moved == preview.key_groups_moved > 0
    assert {move.cause for move in handle.moves()} == {"rescale"} and summary.moves
    assert all(line.endswith("key groups have moved") for line in said)
    assert "per second -> windows[2]" in handle.places() and len(handle.task_managers().live) == 2
    with pytest.raises(OptionError, match="there is no operator 'per hour'"):
        handle.rescale("per hour", 3)
    head = find_head("metered")
    kill_head(head)
    # The one that follows has the plan of the lost one, and so goes on with what is there.
    until(lambda: is_adopted(head), handle)
    job.give(2_000)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 2_000, handle)
    assert head.preview_rescale({"per second": 2}).before == {"per second": 3, "windows": 3}
    job.give(ROWS)
    handle.wait()
    job.check()


def memory_after_head(number: int) -> int | None:
    """Return what an operator has under the head of this number, None while that is not there."""
    try:
        head = find_head("keeping")
        return head.memory().operators[0].after_bytes if head.report().head == number else None
    except (RetryableError, UserError):
        return None


def test_memory_changes_on_ray_and_outlives_the_head(tmp_path: Path, on_ray: RayCluster) -> None:
    with keeping(tmp_path, executor="ray", task_managers=2, parallelism=2) as handle:
        until(lambda: held(handle) > 2 * LITTLE, handle)
        head = find_head("keeping")
        assert head.preview_memory({"last": LITTLE}).total_bytes == 2 * LITTLE
        handle.set_memory({"last": LITTLE})
        until(lambda: held(handle) < 2 * LITTLE, handle)
        with pytest.raises(OptionError, match="no operator 'first' has state by keys"):
            handle.set_memory({"first": LITTLE})
        handle.savepoint("kept", 60.0)
        os.kill(head.pid(), signal.SIGKILL)
        until(lambda: memory_after_head(2) == LITTLE)
        give(tmp_path, KEPT_ROWS)
        handle.wait()
    check(tmp_path)


@pytest.mark.long("another task manager; test_coming_and_going.py has the same without Ray")
def test_task_managers_come_and_go_by_name(tmp_path: Path, on_ray: RayCluster) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="ray", task_managers=1, parallelism=2)
    job.give(1_000)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 1_000, handle)
    named = find_head("metered")
    assert place_on(named, 2).live == ("tm-0", "tm-1")
    until(lambda: len(on_ray.task_managers()) == 2, handle)
    assert drained(named, "tm-0").live == ("tm-1",)
    with pytest.raises(OptionError, match="'tm-1' is the only task manager"):
        drained(named, "tm-1")
    job.give(ROWS)
    handle.wait()
    job.check()
