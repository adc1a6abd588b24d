"""A policy that nothing knows but its own file and one line of the registry: a threshold scaler."""

import sys
from pathlib import Path

import pytest

from penstock.engine.control.policies import POLICIES

NAME = "threshold"
THRESHOLD = '''
from dataclasses import dataclass
import numpy as np
from penstock.model.plan import NoChange, RescalePlan, TaskSize, not_measured

@dataclass(frozen=True)
class Threshold:
    """One instance more after so many busy snapshots in a row."""
    most_percent: float = 80.0
    patience: int = 2
    aggressive: bool = False

    def start(self):
        return 0

    def decide(self, snapshot, busy):
        if snapshot.machines.cpu_percent is None:
            return not_measured("cpu_percent"), busy
        percent = float(np.max(snapshot.machines.cpu_percent))
        busy = busy + 1 if percent > self.most_percent else 0
        if busy < self.patience:
            return NoChange(f"{busy} busy snapshots of {self.patience}", {"cpu_percent": percent}), busy
        return RescalePlan("busy", tasks=(TaskSize(0, 2),), numbers={"cpu_percent": percent}), 0
'''


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the file, add the line until the test is over, and return the policy's name."""
    (folder / "threshold_scaler.py").write_text(THRESHOLD)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(POLICIES, NAME, "threshold_scaler:Threshold")
    # What another test has imported is its own file; it comes back afterwards.
    monkeypatch.delitem(sys.modules, "threshold_scaler", raising=False)
    return NAME
