"""``python -m penstock.benchmarks.papers.state_process REQUEST``: measures state by memory once, and prints it as JSON.

Called by `justin.real_state`, whose cases are the requests.
"""

import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from penstock.benchmarks.papers.justin.real_state import StateCase
from penstock.benchmarks.state.workloads import Counted, micro
from penstock.dsl.job import Job
from penstock.engine.executors import hosted_instances
from penstock.state.stores.rocksdb_store import RocksDbStores

MB = 1 << 20


def measure(case: StateCase, folder: Path) -> float:
    """Return operations a second, once all keys have been written.

    Raises:
        ValueError: what came out is not what was asked for.
    """
    workload, job, counted = micro(case.kind, case.keys, case.operations, fills=True), Job(), Counted()
    workload.build(job, counted)
    stores = partial(RocksDbStores, direct_reads=case.direct)
    with patch.object(hosted_instances, "RocksDbStores", stores):
        job.run("state", state_bytes=case.memory_mb * MB, directory=folder)
    ended_s = time.perf_counter()
    assert counted.began_s is not None
    if not workload.expected(counted):
        raise ValueError(f"{case.kind}: what came out is wrong")
    return case.operations / (ended_s - counted.began_s)


def main(argv: Sequence[str]) -> int:
    """Carry out a request."""
    plain = json.loads(argv[0])
    with TemporaryDirectory(prefix="state-", dir=plain.pop("folder")) as folder:
        print(json.dumps({"per_s": measure(StateCase(**plain), Path(folder))}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
