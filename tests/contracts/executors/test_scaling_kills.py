"""A job that a policy scales loses task managers meanwhile, also while a change is under way: its answer is exact."""

import json
import random
import time
from pathlib import Path

import pytest

from penstock.dsl.job import Handle
from tests.contracts.executors.metered import LONG_S, task_managers, until
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


@pytest.mark.long("seven minutes; test_recovery kills task managers, test_scaling scales")
def test_ten_kills_while_a_policy_scales_change_nothing_in_the_answer(tmp_path: Path) -> None:
    draws = random.Random(SEED)
    handle = started(tmp_path, "ds2", 3, WAVES)
    under_way = 0
    for kill in range(KILLS):
        # One dies while a change is under way, if one comes; the next soon after, and so on.
        waits_for_change = kill % 2 == 0
        until_s = time.monotonic() + (MOST_S if waits_for_change else draws.uniform(1.0, 6.0))
        until(lambda: time.monotonic() > until_s or (waits_for_change and is_under_way(handle)), handle)  # noqa: B023
        until(lambda: bool(task_managers()), handle)
        under_way += is_under_way(handle)
        draws.choice(task_managers()).kill()
    handle.wait(6 * LONG_S)
    check(tmp_path, WAVES)
    entries = [json.loads(line) for line in (tmp_path / "actions.jsonl").read_text().splitlines()]
    outcomes = [entry["outcome"] for entry in entries if entry["kind"] == "result" and entry["policy"] == "ds2"]
    assert outcomes.count("applied") >= 1 and under_way >= 1, outcomes
