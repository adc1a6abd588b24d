"""A replay up to a checkpoint reads the files that the job knew then, and none that came since."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.checkpoint.reader import read_checkpoint
from penstock.model.errors import UserError
from penstock.model.job_graph import SourceSpec
from penstock.replay.source_reading import SourceReading


def write(path: Path, first: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"n": number}) + "\n" for number in range(first, first + 10)))


def test_files_that_came_since_are_not_replayed(tmp_path: Path, spark: Any) -> None:
    job = Job()
    for number in range(2):
        write(tmp_path / "in" / f"{number}.json", 10 * number)
    numbers = ps.read_json(tmp_path / "in", schema={"n": int}, job=job).name("numbers")
    numbers.write_json(tmp_path / "out").name("out")
    job.run("files", checkpoint_dir=str(tmp_path / "checkpoints"), directory=tmp_path / "job")
    write(tmp_path / "in" / "2.json", 20)
    again = Job()
    ps.read_json(tmp_path / "in", schema={"n": int}, job=again).name("numbers")
    [node] = [node for node in again.graph.operators.values() if isinstance(node.spec, SourceSpec)]
    checkpoint = read_checkpoint(str(tmp_path / "checkpoints" / "files"))
    rows = SourceReading(spark, stop=checkpoint, tasks=2)(node)
    assert sorted(row["n"] for row in rows.collect()) == list(range(20))
    (tmp_path / "in" / "0.json").unlink()
    third = Job()
    ps.read_json(tmp_path / "in", schema={"n": int}, job=third).name("numbers")
    [node] = list(third.graph.operators.values())
    with pytest.raises(UserError, match="was read by the job and is no longer there"):
        SourceReading(spark, stop=checkpoint, tasks=2)(node)
