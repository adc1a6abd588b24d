"""What a process reads of itself and of its host, and what its instances' CPU adds up to."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engine.control.machine_load import MachineWindow
from penstock.engine.control.reading_book import ReadingBook
from penstock.engine.executors.managers.host_probe import SystemProbe
from penstock.model.snapshot import ClusterSnapshot


def burn(seconds: float) -> None:
    """Use so much of a core."""
    probe = SystemProbe()
    until_ns = probe.thread_cpu_ns() + int(seconds * 1e9)
    while probe.thread_cpu_ns() < until_ns:
        pass


def test_a_process_reads_its_cores_and_what_it_used_of_them() -> None:
    probe = SystemProbe()
    before = probe.read()
    burn(0.2)
    window = MachineWindow.between(before, probe.read())
    assert window is not None and set(window.after.cores) == os.sched_getaffinity(0)
    length_s = (window.after.time_ns - before.time_ns) / 1e9
    assert window.cpu_percent * length_s >= 20.0
    # Cores are counted in steps of 10 ms.
    assert window.busy_percent * length_s >= 20.0 - 2.0 * len(before.cores)
    assert window.busy_percent <= 100.0 * len(before.cores) * 1.2
    assert window.after.resident_bytes > 1 << 20


def test_two_processes_of_one_machine_name_the_same_host() -> None:
    program = "from penstock.engine.executors.managers.host_probe import SystemProbe; print(SystemProbe().read().host)"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == SystemProbe().read().host


def test_figures_of_all_task_managers_reach_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ClusterSnapshot] = []
    measured = Event()
    snapshot_of = ReadingBook.snapshot

    def record(book: ReadingBook, *arguments: Any) -> ClusterSnapshot:
        snapshot = snapshot_of(book, *arguments)
        seen.append(snapshot)
        cpu_ns = snapshot.instances.cpu_ns
        if cpu_ns is not None and not np.isnan(cpu_ns).any():
            measured.set()
        return snapshot

    monkeypatch.setattr(ReadingBook, "snapshot", record)
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=2_000_000_000), job=job)
    bids.key_by("channel").agg(bids=ps.count()).write_black_hole(mode="changelog")
    running = job.start("read", executor="processes", task_managers=2, directory=tmp_path)
    assert measured.wait(60)
    running.stop()
    running.wait()
    placed, last = seen[0], next(item for item in seen if item.instances.cpu_ns is not None and measured.is_set())
    assert placed.machines.cpu_percent is not None, "hosts are known before the first instances are placed"
    assert not placed.instances.is_running.any() and np.isfinite(placed.machines.cpu_percent[:2]).all()
    while np.isnan(last.instances.cpu_ns).any():  # type: ignore[arg-type]
        last = seen[seen.index(last) + 1]
    own = last.instances
    assert own.cpu_ns is not None and own.busy_ns is not None and own.records_in is not None
    assert own.is_running.all() and (own.cpu_ns > 0).all() and (own.records_in >= 0).all()
    times = sum(
        getattr(own, f"{name}_ns") for name in ("busy", "remote_wait", "core_wait", "input_wait", "output_wait")
    )
    np.testing.assert_allclose(times, last.window_s * 1e9, rtol=0.02)
    # No task manager uses more than all cores, and what its instances took is part of its machine's load.
    by_machine = np.bincount(own.machine, own.cpu_ns / last.window_s / 1e7, len(last.machines))
    assert last.machines.cpu_percent is not None
    assert (by_machine[:2] <= last.machines.cpu_percent[:2] + 1e-6).all()
    assert last.outputs.records_out is not None and last.inputs.offered is not None
    assert last.machines.heartbeat_age_s is not None and (last.machines.heartbeat_age_s[:2] < 10).all()
