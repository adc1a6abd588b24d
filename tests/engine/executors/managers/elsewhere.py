"""Another process that gets plans: what it runs, and what it says."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as dataset

from penstock.engine.connectors.local.memory_sink import consolidate

CHILD = """
import json, sys
from pathlib import Path
paths, parcels = json.loads(sys.argv[1])
sys.path[:] = paths
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers.plan_parcel import unpack_plan
for parcel in parcels:
    EmbeddedJob(unpack_plan(Path(parcel).read_bytes())).run()
"""


def run_elsewhere(parcels: Sequence[Path], paths: Sequence[str] | None = None, code: str = CHILD) -> str:
    """Run plans one after the other in a process with these paths (None: ours); return what it printed."""
    given = json.dumps([list(sys.path if paths is None else paths), [str(parcel) for parcel in parcels]])
    command = [sys.executable, "-P", "-c", code, given]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def read_rows(folder: Path) -> pa.Table:
    """Return the rows of a folder; of a changelog those that stand, as when updates leave is a matter of time."""
    rows = dataset.dataset(folder, format="parquet").to_table()
    return consolidate(rows) if "weight" in rows.schema.names else rows
