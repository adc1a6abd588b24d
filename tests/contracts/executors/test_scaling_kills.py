"""A job that a policy scales loses task managers meanwhile, also while a change is under way: its answer is exact."""

import json
import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.dsl.handle import Handle
from penstock.engine.jobs.recovery import RecoveringJob
from tests.contracts.executors.metered import LONG_S, task_managers, until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import HIGH, LOW, check, started

KILLS = 10
SEED = 24
WAVES = ((40.0, LOW), (40.0, HIGH)) * 5
"""There is always a change that will be wanted."""

MOST_S = 70.0
"""So long a kill waits for a change at most."""


def is_under_way(handle: Handle) -> bool:
    """Return whether what the scaler wants is being done."""
    scaling = handle.metrics().scaling
    return scaling is not None and scaling.outcome == "begun"


def hosts(steered: RecoveringJob) -> list[psutil.Process]:
    """Return the task managers that have instances of the job: who is killed before it is up is started anew later."""
    names, found = set(steered.places().values()), []
    for process in task_managers():
        with suppress(psutil.Error):
            found += [process] if names & set(process.cmdline()) else []
    return found


@pytest.mark.long("seven minutes; test_recovery kills task managers, test_scaling scales")
def test_ten_kills_while_a_policy_scales_change_nothing_in_the_answer(tmp_path: Path) -> None:
    draws = random.Random(SEED)
    handle = started(tmp_path, "ds2", 3, WAVES)
    steered, under_way = running(handle), 0
    for kill in range(KILLS):
        # One dies while a change is under way, if one comes; the next soon after, and so on.
        waits_for_change = kill % 2 == 0
        until_s = time.monotonic() + (MOST_S if waits_for_change else draws.uniform(1.0, 6.0))
        until(lambda: time.monotonic() > until_s or (waits_for_change and is_under_way(handle)), handle)  # noqa: B023
        while not (up := hosts(steered)):
            until(lambda: bool(hosts(steered)), handle)
        under_way += is_under_way(handle)
        draws.choice(up).kill()
    handle.wait(6 * LONG_S)
    check(tmp_path, WAVES)
    entries = [json.loads(line) for line in (tmp_path / "actions.jsonl").read_text().splitlines()]
    outcomes = [entry["outcome"] for entry in entries if entry["kind"] == "result" and entry["policy"] == "ds2"]
    assert outcomes.count("applied") >= 1 and under_way >= 1, outcomes
