"""A policy of one file and one line runs on the simulated cluster, and what it logged there decides the same again.

Nothing else knows it: neither the loop, nor the log, nor the command.
"""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from penstock.commands.cli import app
from penstock.model.plan import RescalePlan
from tests.benchmarks.papers.half_hour import TICKS, half_hour
from tests.sixth_policy import install


def test_it_runs_on_the_simulator_in_the_log_and_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, log = install(tmp_path, monkeypatch), tmp_path / "actions.jsonl"
    records = half_hour(name, log).decisions(name)
    acts = [record for record in records if isinstance(record.decision, RescalePlan)]
    assert len(records) == TICKS and acts[0].outcome.result == "begun"
    # Its task 0 had one instance when it decided, and two from then on.
    sizes = [int(np.count_nonzero(record.snapshot.instances.task == 0)) for record in records]
    assert sizes[records.index(acts[0])] == 1 and sizes[-1] == 2

    run = CliRunner().invoke
    same = run(app, ["decide", str(log), "--policy", name])
    assert same.exit_code == 0 and f"{TICKS} decisions; {TICKS} of {TICKS} as recorded" in same.output
    other = run(app, ["decide", str(log), "--policy", name, "--set", "patience=5", "--json"])
    assert other.exit_code == 0 and '"same": false' in other.output
