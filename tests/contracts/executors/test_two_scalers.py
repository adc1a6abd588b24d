"""Two scalers act on one job on task managers, one at a time, and all that they add is taken from a shared quota."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine.control import quota_file
from penstock.engine.control.decision_replay import redecide
from penstock.engine.plan.recut import instances_by_name
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_whole_jobs import WINDOWS, Sized

pytestmark = pytest.mark.slow

NAMES = ("sage", "ds2")
STATE_BYTES = 8 << 20


class BurnsAndWaits(ps.Process):
    """A row takes a millisecond of a core, and waits for 2 ms beside that; it is counted."""

    counted = ps.value_state(int)

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        until_s = time.thread_time() + 0.001
        while time.thread_time() < until_s:
            pass
        time.sleep(0.002)
        self.counted.set((self.counted.get() or 0) + 1)
        return {"key": row["key"], "at": row["at"]}


def test_one_adds_cores_and_the_other_one_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows need more than the 0.3 cores that the job begins with, and more than one instance."""
    monkeypatch.setattr(quota_file.tempfile, "gettempdir", lambda: str(tmp_path))
    sized = Sized(tmp_path / "one", "short-of-both")
    parameters = {"sage.windows": WINDOWS, "ds2": {"pace": {"interval_s": 4.0, "warm_up_s": 1.0}}}
    control = {"scale": NAMES, "quota": "team", "cores": 2, "memory": 4 * STATE_BYTES, "first_cores": 0.3}
    # Both task managers are there from the start: one that comes takes long to start on a busy machine.
    start = {"task_managers": 2, "state_bytes": STATE_BYTES}
    handle = sized.start(500.0, BurnsAndWaits, {**control, "parameters": parameters}, **start)
    until(lambda: bool(sized.actions("sage") and sized.actions("ds2")), handle)
    (book,) = tmp_path.rglob("team.json")

    def is_leased() -> bool:
        """Return whether the lease is of what the job has: more of both than it began with."""
        (lease,) = json.loads(book.read_text(encoding="utf-8"))["leases"]
        instances = instances_by_name(running(handle).graph)["worked"]
        return instances > 1 and lease["memory_bytes"] == instances * STATE_BYTES and lease["cores"] > 0.3

    until(is_leased, handle)
    sized.over(handle)
    log = tmp_path / "one" / "actions.jsonl"
    assert all(item.same for name in NAMES for item in redecide(log, name, {}))
