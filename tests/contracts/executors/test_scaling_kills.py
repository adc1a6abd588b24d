"""A job that a policy scales loses task managers meanwhile, also while a change is under way: its answer is exact."""

import json
import math
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.jobs.recovery import RecoveringJob
from tests.contracts.executors.metered import LONG_S, task_managers, until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import HIGH, LOW, Phases, check, end, started
from tests.long_cases import but_for

pytestmark = pytest.mark.slow

SEED = 24

WAVES: Phases = ((30.0, LOW), (30.0, HIGH)) * 10
"""There is always a change that will be wanted."""

RISING: Phases = ((20.0, LOW), (600.0, HIGH))
"""For who gives instances back after minutes."""

AT_ONCE: Phases = ((600.0, 600.0),)
"""From the beginning there is a little more than a task manager takes."""

CHANGE_S, SOON_S = (10.0, 30.0), (1.0, 6.0)
"""So long another change is waited for, and so long after such a kill the next one comes."""


@dataclass(frozen=True, slots=True)
class Scaler:
    """A policy, its parameters, options of the job's control beside it, and the load that lets it act."""

    policy: str
    phases: Phases
    parameters: Mapping[str, Any]
    control: Mapping[str, Any] = field(default_factory=lambda: {"cores": 3})


SAGE = {"cores": 4, "first_cores": 2.0}
SECONDS = {"windows": 1 / 60}
"""Minutes of Sage's windows are seconds here."""

SCALERS: Mapping[str, Scaler] = {
    "ds2": Scaler("ds2", WAVES, {"pace.interval_s": 5.0, "pace.warm_up_s": 0.0}),
    "justin": Scaler("justin", WAVES, {"ds2.pace.interval_s": 5.0, "ds2.pace.warm_up_s": 0.0}),
    "flink-er": Scaler("flink-er", RISING, {}),
    "sage": Scaler("sage", WAVES, SECONDS, SAGE),
    "one with sage": Scaler("sage", AT_ONCE, SECONDS, SAGE),
}


def is_under_way(handle: Handle) -> bool:
    """Return whether what the scaler wants is being done."""
    scaling = handle.metrics().scaling
    return scaling is not None and scaling.outcome == "begun"


def is_time(handle: Handle, looks: list[bool], until_s: float, meets: bool) -> bool:
    """Return whether it is time for a kill, which ``meets`` a change or comes later; note whether one is under way."""
    looks.append(is_under_way(handle))
    return time.monotonic() > until_s or (meets and looks[-1])


def hosts(steered: RecoveringJob) -> list[psutil.Process]:
    """Return the task managers that have instances of the job: who is killed before it is up is started anew later."""
    names, found = set(steered.places().values()), []
    for process in task_managers():
        with suppress(psutil.Error):
            found += [process] if names & set(process.cmdline()) else []
    return found


def applied(folder: Path, policy: str) -> int:
    """Return how many changes that a policy wanted have come to their end, as the action log says."""
    # The last line may be on its way.
    lines = (folder / "actions.jsonl").read_text().split("\n")[:-1]
    entries = [json.loads(line) for line in lines]
    return sum(it["kind"] == "result" and (it["policy"], it["outcome"]) == (policy, "applied") for it in entries)


@pytest.mark.parametrize(
    ("name", "kills"),
    but_for(
        [(name, 1 if name.startswith("one") else 10) for name in SCALERS],
        [("one with sage", 1)],
        "three minutes each, for ten kills while a policy scales; with Sage there is one",
    ),
)
def test_kills_while_a_policy_scales_change_nothing_in_the_answer(tmp_path: Path, name: str, kills: int) -> None:
    draws, scaler = random.Random(SEED), SCALERS[name]
    control = ps.Control(scale=scaler.policy, mode="act", parameters=scaler.parameters, **scaler.control)
    options: Mapping[str, Any] = {"channel_bytes": 32_768, "state_bytes": 8 << 20, "restart_delay": "1ms"}
    handle = started(tmp_path, control, scaler.phases, **options)
    steered, under_way = running(handle), 0
    for kill in range(kills):
        # The first dies while a change is under way, the next soon after; then one for which a change may come in time.
        meets = kill % 2 == 0
        until_s = time.monotonic() + draws.uniform(*(CHANGE_S if meets else SOON_S)) if kill else math.inf
        looks = [False]
        until(partial(is_time, handle, looks, until_s, meets), handle)
        while not (up := hosts(steered)):
            until(lambda: bool(hosts(steered)), handle)
        under_way += looks[-1]
        draws.choice(up).kill()
    until(lambda: applied(tmp_path, scaler.policy) > 0, handle)
    end(tmp_path)
    handle.wait(6 * LONG_S)
    check(tmp_path, scaler.phases)
    assert under_way >= 1
