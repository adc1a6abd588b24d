"""Real processes, killed for real: what is committed in the end is exactly that of an undisturbed run.

The ids are those of docs/design/fault-tests.md 2; ``make chaos`` does the same with more kills.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.experiment import ChaosOptions, ChaosReport
from penstock.chaos.trials import Chaos
from penstock.commands.loading import capture
from penstock.model.errors import UserError
from tests.chaos.attacks import PIPELINE, SMALL_STATE, Attacker
from tests.chaos.fork_server import ForkServer
from tests.chaos.full_disk import full_disk

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

EVENTS = 500_000
FEWER_EVENTS = 150_000


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(PIPELINE, ["20000"]) as server:
        yield server


def check(report: ChaosReport, kills: int) -> None:
    assert report.failure is None, report.failure
    assert report.kills >= kills
    assert report.left_out == {}
    assert report.rows > 0
    assert (report.lost, report.duplicated) == (0, 0), report


@pytest.mark.long("25 kills; test_operators_need_no_names has two")
def test_r1_kills_at_any_moment(tmp_path: Path, server: ForkServer) -> None:
    report = Attacker(tmp_path, server.start, EVENTS, (2, 3, 1)).moments(25, seed=1)
    check(report, 25)
    assert report.after_checkpoint >= 20


@pytest.mark.long("a kill at each of thirty points; test_simulated crashes at them in the simulator")
def test_r2_s5_a_crash_at_every_point(tmp_path: Path, server: ForkServer) -> None:
    report = Attacker(tmp_path, server.start, FEWER_EVENTS, (1, 2)).every_point(seed=2)
    check(report, 30)
    assert report.unreached == ()


@pytest.mark.long("kills and spills to disk; test_simulated_pages crashes in the simulator")
def test_r2_a_crash_at_every_point_of_the_page_store(tmp_path: Path, server: ForkServer) -> None:
    attacker = Attacker(tmp_path, server.start, FEWER_EVENTS, (1, 2), state_bytes=SMALL_STATE)
    report = attacker.every_point(4, "pages.")
    check(report, 4)
    assert report.unreached == ()


@pytest.mark.long("ten kills; test_operators_need_no_names has two at any moment")
def test_r3_crashes_before_and_while_sinks_commit(tmp_path: Path, server: ForkServer) -> None:
    check(Attacker(tmp_path, server.start, FEWER_EVENTS, (2,)).before_commit(10, seed=3), 10)


@pytest.mark.long("nine kills; test_operators_need_no_names has two at any moment")
def test_r8_crashes_while_recovering_twice_in_a_row(tmp_path: Path, server: ForkServer) -> None:
    check(Attacker(tmp_path, server.start, FEWER_EVENTS, (1, 2, 3)).while_recovering(3, seed=8), 9)


@pytest.mark.long("ten kills; tests/state/checkpoints/test_repository passes damaged ones over")
def test_s1_s2_a_damaged_checkpoint_is_passed_over(tmp_path: Path, server: ForkServer) -> None:
    report = Attacker(tmp_path, server.start, EVENTS, (1, 2)).damage(8, seed=12)
    check(report, 10)
    assert report.fallbacks >= 8


@pytest.mark.long("fills a disk and waits; test_write_behind and test_frozen_buckets have full disks")
@pytest.mark.parametrize("room", [0, 3_000])
def test_s3_a_full_disk_passes(tmp_path: Path, server: ForkServer, room: int) -> None:
    check(full_disk(tmp_path, server.start, EVENTS, room), 0)


SILENT = """
import time
import pyarrow as pa
import penstock as ps

def rows():
    time.sleep(60)
    yield pa.record_batch({"k": [1]})

ps.read_iterable(rows, schema=pa.schema({"k": pa.int64()})).name("rows").write_json("out").name("out")
"""


@pytest.mark.long("waits for a run that hangs; test_a_pipeline_may_print kills runs")
def test_a_run_that_hangs_is_ended_and_the_next_one_begins(tmp_path: Path, server: ForkServer) -> None:
    file = tmp_path / "silent.py"
    file.write_text(SILENT)
    options = ChaosOptions(kills=1, patience_s=0.05)
    report = Chaos(file, capture(file)[0], options, tmp_path / "runs", server.start).run()
    assert report.failure is not None and "hangs" in report.failure
    check(Attacker(tmp_path, server.start, FEWER_EVENTS, (1,)).moments(1, seed=1), 1)


TALKING = """
import penstock as ps

rows = [{"k": number % 7} for number in range(20_000)]
keys = ps.read_memory(rows).name("rows").key_by("k").agg(n=ps.count()).name("counts")
keys.write_json("out", mode="upsert", key="k").name("out")
print("{}")
ps.run("talking", batch_rows=200)
print("that was all")
"""


def test_a_pipeline_may_print(tmp_path: Path, server: ForkServer) -> None:
    file = tmp_path / "talking.py"
    file.write_text(TALKING)
    options = ChaosOptions(kills=2, checkpoint_interval="10ms")
    check(Chaos(file, capture(file)[0], options, tmp_path / "runs", server.start).run(), 2)


UNNAMED = """
import penstock as ps

job = ps.Job()
rows = ps.read_memory([{"k": number % 7} for number in range(20_000)], job=job)
rows.key_by("k").agg(n=ps.count()).write_json("out", mode="upsert", key="k")
job.run("unnamed", batch_rows=200)
"""


def test_operators_need_no_names(tmp_path: Path, server: ForkServer) -> None:
    """The program is the same in every life: state is found again by the positions of operators."""
    file = tmp_path / "unnamed.py"
    file.write_text(UNNAMED)
    options = ChaosOptions(kills=2, checkpoint_interval="10ms")
    report = Chaos(file, capture(file)[0], options, tmp_path / "runs", server.start).run()
    check(report, 2)
    assert report.after_checkpoint


def test_a_program_that_changes_from_run_to_run_is_refused(tmp_path: Path, server: ForkServer) -> None:
    file = tmp_path / "changing.py"
    file.write_text(UNNAMED)
    job = capture(file)[0]
    file.write_text(UNNAMED.replace("rows.key_by", "rows.write_black_hole()\nrows.key_by"))
    changed = capture(file)[0]
    file.write_text(UNNAMED)
    assert len(changed.graph.operators) == len(job.graph.operators) + 1
    with pytest.raises(UserError, match=r"one had no sink 'sink-2'"):
        Chaos(file, changed, ChaosOptions(kills=1), tmp_path / "runs", server.start).run()


@pytest.mark.long("half a million events three times; the command runs on a pipeline that keeps windows")
def test_the_command_tells_what_it_did(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "chaos", str(PIPELINE), "--kills", "1", "--checkpoint-interval", "30ms",
         "--parallelism", "1,2", "--seed", "5", "--", str(EVENTS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "duplicated" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_that_keeps_windows_for_its_next_run_is_compared(tmp_path: Path) -> None:
    """Every life closes its windows, also the undisturbed one, which takes no checkpoints."""
    file = tmp_path / "hourly.py"
    file.write_text(
        """
import penstock as ps

rows = ps.read_memory([{"n": n} for n in range(100)]).name("rows")
rows.write_json("out").name("out")
ps.run("hourly", checkpoint_dir="checkpoints", at_end="keep")
"""
    )
    command = [sys.executable, "-m", "penstock", "chaos", str(file), "--kills", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
