"""The run of an output in a process that has no lease of it: a number and a token, and nothing to check."""

import pickle
from pathlib import Path

from penstock.engine.connectors.files.run_staging import RunStaging
from penstock.engine.core.clock import SystemClock
from penstock.engine.jobs.process_identity import is_alive, this_process
from penstock.model.sink_context import RunMark
from penstock.state.files.local_files import LocalFiles
from penstock.state.leases.run_lease import RunLease


def held(folder: Path) -> RunLease:
    clock = SystemClock()
    owner = this_process("job", clock.wall_us())
    lease = RunLease(LocalFiles(folder), "a folder", owner, is_alive, clock.monotonic_ns, lambda: "0123456789abcdef")
    lease.acquire(lambda _: None, lambda _: None)
    return lease


def test_a_lease_travels_as_the_mark_of_its_run(tmp_path: Path) -> None:
    lease = held(tmp_path)
    mark = pickle.loads(pickle.dumps(lease))
    assert mark == RunMark(lease.number, lease.token)
    lease.release(forget=True)
    mark.check()


def test_staged_files_of_a_copy_lie_where_the_run_takes_them(tmp_path: Path) -> None:
    staging = RunStaging(tmp_path / "out" / "_staging", held(tmp_path / "lease"))
    copy = pickle.loads(pickle.dumps(staging))
    assert copy.folder == staging.folder
    copy.check()
