"""Logs of jobs that dropped rows by their keys: no replay keeps rows by them, and none counts what is missing."""

import json
from pathlib import Path

import pytest

from penstock.model.errors import UserError
from penstock.replay.kept_log import KeptLog
from penstock.replay.request import ReplayBounds, load

PROGRAM = """
import pyarrow as pa
import penstock as ps

job = ps.Job()
fields = pa.schema({"user": pa.int64(), "at": pa.timestamp("us")})
clicks = ps.read_kafka("clicks", kafka="nowhere:1", time="at", schema=fields, job=job).name("clicks")
visits = clicks.key_by("user").window(ps.session("1m")).agg(n=ps.count()).name("visits")
visits.write_black_hole().with_min_accuracy(0.3).name("found")
clicks.select("user").name("users").write_black_hole().with_min_accuracy(0.5).name("all")
job.run("shop")
"""


def request(folder: Path, branch: str) -> ReplayBounds:
    (folder / "shop.py").write_text(PROGRAM)
    head = {"version": 2, "job": "shop", "seed": 7}
    place = {"source": "clicks", "topic": "clicks", "partition": 0, "from": 0, "to": 9}
    lines = [head, place | {"keep": 1.0, "branches": {branch: 0.5}}]
    (folder / "kept.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ReplayBounds(kept=str(folder / "kept.jsonl"), stop="latest")


def test_what_was_dropped_by_keys_is_not_replayed_by_offsets(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"in front of 'visits' by their keys.*leave out --kept"):
        load(tmp_path / "shop.py", [], request(tmp_path, "clicks>visits"))


def test_what_was_dropped_on_a_branch_beside_it_is(tmp_path: Path) -> None:
    loaded = load(tmp_path / "shop.py", [], request(tmp_path, "clicks>users"))
    assert isinstance(loaded.kept, KeptLog)
