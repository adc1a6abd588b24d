"""A job whose checkpoints lie on S3, killed in the midst of them, goes on there and puts every row out once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.chaos.compared_outputs import difference, read_rows
from penstock.engine.core.failpoint_settings import VARIABLE
from tests.contracts.faulty_s3 import PASSING, Store, s3_store

PIPELINE = """
import sys
import penstock as ps

job = ps.Job()
bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=400_000), watermark="4s", job=job).name("bids")
bids.key_by("auction").agg(n=ps.count(), highest=ps.max_("price")).name("counts").write_json(
    sys.argv[1], mode="changelog"
).name("out")
options = {"checkpoint_dir": sys.argv[2], "checkpoint_interval": "20ms"} if sys.argv[2] else {}
job.run("j", batch_rows=500, **options)
"""


def run(folder: Path, out: str, store: Store | None, failpoint: str = "") -> int:
    file = folder / "pipeline.py"
    file.write_text(PIPELINE)
    url = "" if store is None else store.url("checkpoints")
    environment = {**os.environ, VARIABLE: failpoint}
    command = [sys.executable, file, folder / out, url]
    ran = subprocess.run(command, env=environment, cwd=folder, timeout=120, capture_output=True, text=True)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


@pytest.mark.slow
@pytest.mark.long(
    "five lives, three of them killed; tests/contracts/test_s3 has faults of the store, test_one_run killed runs"
)
def test_a_job_that_is_killed_goes_on_from_s3(tmp_path: Path) -> None:
    assert run(tmp_path, "expected", None) == 0
    with s3_store() as store:
        chance = random.Random(1)
        store.faults.choose = lambda method, path: chance.choice(PASSING[:5]) if chance.random() < 0.02 else None
        for point in ("file.uploaded:2", "before_commit:2", "manifest.before_publish:1"):
            assert run(tmp_path, "out", store, f"checkpoint.{point}") == -signal.SIGKILL
        assert run(tmp_path, "out", store) == 0
        assert store.faults.struck > 0
        assert ps.read_checkpoint(store.url("checkpoints")).epoch > 0
    expected, found = (read_rows(tmp_path / out, "changelog", ()) for out in ("expected", "out"))
    compared = difference(expected, found)
    assert (compared.lost, compared.duplicated) == (0, 0)
    assert compared.rows > 0
