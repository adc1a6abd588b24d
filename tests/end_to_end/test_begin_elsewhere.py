"""A job that was told not to begin at its latest checkpoint never goes back to those of an earlier run."""

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps

EVENTS = 20_000


def run(folder: Path, *, fail_at: int | None, **options: object) -> int:
    """Run a job that fails once at a batch; return how many rows its sink holds."""
    job = ps.Job()
    batches = 0

    def look(rows: pa.RecordBatch) -> None:
        nonlocal batches
        batches += 1
        if batches == fail_at:
            raise ConnectionError("the outside is gone for a moment")

    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=EVENTS), watermark="4s", job=job).name("bids")
    bids.write_json(folder / "out").name("out")
    bids.for_each_batch(look).name("look")
    job.run("j", batch_rows=1_000, checkpoint_dir=folder / "checkpoints", restart_delay="1ms", **options)
    return sum(len(path.read_bytes().splitlines()) for path in (folder / "out").glob("*.jsonl"))


@pytest.mark.parametrize("fail_at", [None, 3])
def test_from_nothing(tmp_path: Path, fail_at: int | None) -> None:
    rows = run(tmp_path, fail_at=None)
    assert rows > EVENTS / 2
    assert run(tmp_path, fail_at=fail_at, checkpoint_interval="1h", restore="none") == rows


def test_from_its_own_checkpoints_once_there_are_some(tmp_path: Path) -> None:
    rows = run(tmp_path, fail_at=None)
    assert run(tmp_path, fail_at=15, checkpoint_interval="1ms", restore="none") == rows
