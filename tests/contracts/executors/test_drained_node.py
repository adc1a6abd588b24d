"""A node of a cluster of three is drained while a job runs: its task manager goes, and another begins elsewhere."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.contracts.executors.metered import PARTITIONS, ROWS
from tests.ray_cluster import GROUP

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = f"""
import subprocess, sys
from pathlib import Path
import ray
from ray._private.state import state
from ray.cluster_utils import Cluster
from tests.contracts.executors.metered import MeteredJob, until

small = {{"object_store_memory": 80 << 20}}
cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 0, "include_dashboard": False, **small}})
for _ in range(2):
    cluster.add_node(num_cpus=2, **small)
ray.init(address=cluster.address, namespace="penstock", log_to_driver=False, logging_level="ERROR")

def nodes():
    actors = state.actor_table(None).values()
    return {{actor["Name"].split()[-1]: actor["Address"]["NodeID"] for actor in actors if actor["State"] == "ALIVE"}}

job = MeteredJob(Path(sys.argv[1]))
job.give(1_000)
# No failure is borne, and no checkpoint is due.
handle = job.start(parallelism=2, restarts=0, executor="ray", task_managers=2, attached=True, spread=True)
until(lambda: handle.metrics().source_rows >= {PARTITIONS * 1_000}, handle)
before = nodes()
assert sorted(before) == ["tm-0", "tm-1"] and len(set(before.values())) == 2, before
drain = ["drain-node", "--address", cluster.address, "--node-id", before["tm-1"], "--deadline-remaining-seconds", "600"]
reason = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the cloud takes it back"]
subprocess.run([Path(sys.executable).with_name("ray"), *drain, *reason], check=True)
until(lambda: nodes() == dict.fromkeys(["tm-0", "tm-2"], before["tm-0"]), handle)
assert job.table_rows() == {PARTITIONS * 1_000}
job.give({ROWS})
metrics = handle.wait()
job.check()
assert metrics.checkpoints.restarts == 1, metrics.checkpoints
ray.shutdown()
cluster.shutdown()
print("went on elsewhere")
"""


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
@pytest.mark.long("a cluster of its own; tests/contracts/executors/test_recovery.py tells processes to end")
def test_what_is_on_a_node_that_is_drained_goes_on_elsewhere(tmp_path: Path) -> None:
    # Names of sockets are short, and the cluster is to be found by nobody else.
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.stdout.splitlines()[-1:] == ["went on elsewhere"], ran.stderr
