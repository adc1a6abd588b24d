"""A disk that is full for a while: a limit on the size of files makes writing fail half-way.

The job must give up nothing that is complete, and go on once there is room: by itself, or when it is started again
(docs/design/fault-tests.md S3).
"""

import json
import resource
from pathlib import Path

from penstock.chaos.child import Child, Start
from penstock.chaos.compared_outputs import Difference, difference, read_rows
from penstock.chaos.experiment import ChaosReport
from penstock.dsl.sink_relocation import output_folder
from penstock.engine.core.failpoint_settings import VARIABLE
from tests.chaos.attacks import BATCH_ROWS, INTERVAL, PIPELINE

PATIENCE_S = 120.0
_SINKS = (("windows", "append"), ("auctions", "changelog"))


def full_disk(folder: Path, start: Start, events: int, room: int) -> ChaosReport:
    """Let the second checkpoint be complete, then no file grow beyond ``room`` bytes until something has failed.

    That is the job, or a checkpoint that is given up and tried again; where all files are smaller it is nothing.
    """
    report = ChaosReport(seed=room)
    expected, full = folder / "expected", folder / "full"
    given = ["run", str(PIPELINE), "--json", f"--batch-rows={BATCH_ROWS}"]
    checkpoints = [f"--checkpoint-dir={full}", f"--checkpoint-interval={INTERVAL}", f"--sinks-into={full}"]
    rows = ["--", str(events)]
    folder.mkdir(parents=True, exist_ok=True)
    code = start([*given, f"--sinks-into={expected}", *rows], {VARIABLE: ""}, folder / "summary.json").wait()
    points = "checkpoint.after_commit:2:say,job.taken_down:1:say,checkpoint.abandoned:1:say"
    child = start([*given, *checkpoints, *rows], {VARIABLE: points}, folder / "summary.json")
    reached = _await(child, "checkpoint.after_commit")
    limits = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (room, limits[1]))
    reached = reached and (_await(child, "job.taken_down", "checkpoint.abandoned") or child.ended)
    if not child.ended:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, limits)
    if child.wait() != 0:
        report.restarts = 1
        child = start([*given, *checkpoints, *rows], {VARIABLE: ""}, folder / "summary.json")
        code = code or child.wait()
    if code or not reached:
        report.failure = "\n".join(["a full disk was not survived:", *child.said])
        return report
    total = Difference()
    for sink, mode in _SINKS:
        total += difference(*(read_rows(output_folder(side, sink), mode, ()) for side in (expected, full)))
    report.runs, report.rows, report.lost, report.duplicated = 1, total.rows, total.lost, total.duplicated
    report.rows_in = json.loads((folder / "summary.json").read_bytes().splitlines()[-1])["rows_in"]
    return report


def _await(child: Child, *points: str) -> bool:
    while (passed := child.next_point(PATIENCE_S)) is not None:
        if passed[1] in points:
            return True
    return False
