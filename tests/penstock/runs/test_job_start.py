"""Where a later head of a job begins, which was told to begin elsewhere than at its last checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.job import Job, make_ready
from penstock.dsl.readers import read_csv
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.runs.run_options import make_options


def run(folder: Path, restore: str, begun_after: int | None) -> RecoveringJob:
    job = Job()
    read_csv(folder / "in.csv", schema={"n": "int64"}, job=job).name("numbers").write_json(folder / "out").name("out")
    given: dict[str, Any] = {"checkpoint_dir": folder / "checkpoints", "directory": folder / "job", "restore": restore}
    options = make_options("numbers", given)
    ready = make_ready(job, replace(options, restore=replace(options.restore, begun_after=begun_after)))
    assert isinstance(ready, RecoveringJob)
    ready.run()
    return ready


@pytest.mark.parametrize(("restore", "begun_after"), [("latest", None), ("latest", 0), ("none", 0)])
def test_a_later_head_goes_on_from_what_the_job_itself_has_completed(
    tmp_path: Path, restore: str, begun_after: int | None
) -> None:
    (tmp_path / "in.csv").write_text("n\n1\n2\n")
    run(tmp_path, "latest", None)
    assert run(tmp_path, restore, begun_after).restored_epoch is not None


@pytest.mark.parametrize("begun_after", [None, 1_000])
def test_a_job_that_was_told_to_begin_anew_does_not_go_on_from_checkpoints_before_it(
    tmp_path: Path, begun_after: int | None
) -> None:
    (tmp_path / "in.csv").write_text("n\n1\n2\n")
    run(tmp_path, "latest", None)
    (tmp_path / "out").rename(tmp_path / "before")
    assert run(tmp_path, "none", begun_after).restored_epoch is None
