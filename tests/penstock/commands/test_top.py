"""``penstock top`` on a real job: one look, as JSON, live until the job ends; and what it says where there is none."""

import io
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from penstock.commands import top_view
from penstock.commands.cli import main
from penstock.dsl.handle import Handle
from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.ledger import Ledger, OperatorLine
from penstock.engine.jobs.metric_rates import JobRates
from penstock.engine.jobs.metrics import (
    InstanceMetrics,
    JobMetrics,
    PartitionLag,
    SourceMetrics,
    StateMetrics,
    no_metrics,
)
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.jobs_client.client import JobClient
from penstock.model.recent_decision import RecentDecision
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus
from penstock.state.store import Accesses
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: object) -> tuple[int, str, str]:
        # What the job beside it has said is not the command's.
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["top", "--interval", "20ms", *map(str, arguments)])
        printed = capfd.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def test_one_look_at_a_running_job(tmp_path: Path, command: Command) -> None:
    with running(tmp_path, metrics_port=0) as handle:
        handle.savepoint("first", LONG_S)
        code, out, err = command(handle.metrics_url, "--once")
    assert (code, err) == (0, "")
    for said in (
        "items  running",
        "6 rows read",
        "1 committed, 0 given up  epoch 1",
        "per item",
        "orders",
        "held",
    ):
        assert said in out, out


def test_one_look_as_json(tmp_path: Path, command: Command) -> None:
    with running(tmp_path, metrics_port=0) as handle:
        code, out, _ = command(handle.metrics_url, "--once", "--json")
    found = json.loads(out)
    assert (code, found["job"], sorted(found["operators"])) == (0, "items", ["orders", "out", "per item"])
    assert found["seconds"] > 0
    for instance in found["instances"]:
        parts = ("busy", "remote_wait", "core_wait", "input_wait", "output_wait")
        assert sum(instance[part] for part in parts) == pytest.approx(1)
    assert found["metrics"]["checkpoints"]["committed"] == 0


@pytest.mark.parametrize("option", ["--json", ""])
def test_it_ends_with_the_job(option: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, metrics_port=0) as handle:
        stop_at_the_third_look(monkeypatch, handle)
        code, out, err = command(handle.metrics_url, *filter(None, [option]))
    assert (code, err) == (0, "")
    assert (len(out.splitlines()) == 2) if option else out.endswith("items has ended\n")


def stop_at_the_third_look(monkeypatch: pytest.MonkeyPatch, handle: Handle) -> None:
    """Let the job end while it is watched."""
    real, looks = JobClient.metrics, iter(range(10))

    def metrics(client: JobClient) -> JobMetrics:
        found = real(client)
        if next(looks) == 2:
            handle.stop()
        return found

    monkeypatch.setattr(JobClient, "metrics", metrics)


def test_where_nothing_answers_it_says_what_to_do(command: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        code, _, err = command(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert code == 1 and "penstock run --metrics-port" in err


def test_places_key_groups_and_what_moves_fit_on_a_terminal_of_80_columns() -> None:
    time = TimeSpent(75, 0, 0, 0, 25)
    names = ("per hour -> hourly", "rows of every shop -> parsed -> cleaned")
    metrics = replace(
        no_metrics("sales"),
        instances=(
            InstanceMetrics(names[0], 0, time, None, 2_000_000, "tm-0", 86),
            InstanceMetrics(names[0], 1, time, None, 2_000_000, "tm-1", 42),
            InstanceMetrics(names[1], 1, time, None, 2_000_000, "caller"),
        ),
        change=ChangeUnderWay(f"{names[0]} from 1 to 2 instances", "key groups have moved", names[0], 42, 64),
    )
    text = io.StringIO()
    Console(file=text, width=80, markup=False).print(top_view.view(metrics, JobRates(None, metrics)))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "under way: per hour -> hourly from 1 to 2 instances: 42 of 64 key groups of per" in lines
    rows = {" ".join(line.split()) for line in lines}
    share = "75% 0% 0% 25% 0% 2.0 MB"
    assert {f"{names[0]}[0] tm-0 86 {share}", f"{names[0]}[1] tm-1 42 {share}"} <= rows, text.getvalue()
    assert any(row.endswith(f"caller - {share}") for row in rows), text.getvalue()
    data = top_view.view_data(metrics, JobRates(None, metrics))
    assert [(item["task_manager"], item["key_groups"]) for item in data["instances"]] == [
        ("tm-0", 86),
        ("tm-1", 42),
        ("caller", None),
    ]
    assert (data["change"]["task"], data["change"]["moved_key_groups"]) == (names[0], 42)


def test_what_is_shown() -> None:
    lags = (PartitionLag("a/0", 30), PartitionLag("a/1", 1_204))
    metrics = replace(
        no_metrics("rides"),
        elapsed_ns=2_000_000_000,
        source_rows=1_000_000,
        ledger=Ledger((OperatorLine("[red]sum", 1_000_000, 0, 999_998, 0, 2, 0, 40),), ()),
        instances=(InstanceMetrics("[red]sum", 1, TimeSpent(75, 0, 0, 0, 25), None, 2_000_000),),
        state_bytes=5_000_000,
        sources=(SourceMetrics("rides", 1_000_000, None, 1_500_000, lags),),
        states=(StateMetrics("[red]sum", 5_000_000, Accesses(4, 3, 2_000_000)),),
        checkpoints=CheckpointMetrics(3, 2, 1, 4, 7, 12_000_000, 1_000, 9_000, "epoch 6: disk full", (), 5, "no"),
        shedding=SheddingStatus("qod", "act", "1 of 1 queries shed", sources=(("rides", 0.75),), applied=True),
        scaling=ScalingStatus("ds2", "act", "rates ask for it", (("sum", 1, 2),), "begun"),
        decisions=(RecentDecision("ds2", "2 instances of sum (now 1)", "rates ask for it", "begun", 97.2),),
    )
    text = io.StringIO()
    Console(file=text, width=160, markup=False).print(top_view.view(metrics, JobRates(None, metrics)))
    for said in (
        "rides  running 2.000 s  500.0 k/s  1,000,000 rows read  watermark -  state 5.0 MB  2 late",
        "checkpoints 2 committed, 1 given up  epoch 7  took 0.012 s  1.0 kB new, 9.0 kB kept  4 restarts",
        "given up: epoch 6: disk full",
        "old ones stay: no",
        "keep rates: rides 75%; 1 of 1 queries shed",
        "97.2 s ago ds2: 2 instances of sum (now 1), begun; rates ask for it",
        "scaling: ds2: rates ask for it; 2 instances of sum (now 1), begun",
        "1.500 s",
        "1,234 messages",
        "75.0%",
        "0.002 s",
        "[red]sum[1]",
        "25%",
    ):
        assert said in text.getvalue(), text.getvalue()
