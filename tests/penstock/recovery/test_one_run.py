"""One run at a time: real processes on one checkpoint directory, and on one output directory."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.core.failpoint_settings import SAID
from tests.long_cases import but_for
from tests.penstock.recovery.checkpoint_jobs import per_item, running

LONG_S = 60.0
"""Longer than anything here takes."""

SLEPT_S = float(os.environ.get("PENSTOCK_SLEPT_S", "0"))
"""How long a run stands still after it was taken over; 60 before a version."""

NUMBERS = """
    import itertools, sys
    import penstock as ps

    def numbers():
        last = int(sys.argv[1])
        for number in range(last) if last else itertools.count():
            yield {"number": number}

    stream = ps.read_iterable(numbers, schema={"number": int}).name("numbers")
    stream.write_json(sys.argv[2]).name("out")
    keyed = stream.with_columns(k=ps.col("number") % 7).key_by("k").agg(n=ps.count()).name("per k")
    keyed.write_black_hole(mode="changelog").name("nothing")
    ps.run(batch_rows=100, directory="job")
"""

Run = Callable[..., "Child"]


class Child:
    """A real `penstock run`; its stderr is read line by line."""

    def __init__(self, arguments: Sequence[str], folder: Path, failpoints: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(ps.__file__).parents[1]),
            "PENSTOCK_FAILPOINT": failpoints,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", *arguments],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.lines: list[str] = []

    def until(self, point: str) -> None:
        """Wait until it has passed a failpoint."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith(f"{SAID}{point} "):
                return
        raise AssertionError("".join(self.lines))

    def end(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it said besides failpoints."""
        _, rest = self.process.communicate(timeout=LONG_S)
        said = [line for line in "".join([*self.lines, rest]).splitlines() if not line.startswith(SAID)]
        return self.process.returncode, "\n".join(said)

    def send(self, number: int) -> None:
        self.process.send_signal(number)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start runs in the test's folder; none outlives the test."""
    (tmp_path / "pipeline.py").write_text(textwrap.dedent(NUMBERS))
    children: list[Child] = []

    def start(*options: str, last: int = 0, out: str = "out", failpoints: str = "", checkpoints: bool = True) -> Child:
        kept = ["--checkpoint-dir=checkpoints", "--checkpoint-interval=100ms"] if checkpoints else []
        child = Child(["pipeline.py", "--name=job", *kept, *options, "--", str(last), out], tmp_path, failpoints)
        children.append(child)
        return child

    yield start
    for child in children:
        if child.process.poll() is None:
            child.process.kill()
        child.end()


COMMITTED = "checkpoint.after_commit"


def rows(folder: Path) -> list[int]:
    """Return what stands in the parts of an output, in order of their epochs."""
    parts = sorted(folder.glob("part-*.jsonl"), key=lambda path: path.name.rpartition("-")[2])
    return [json.loads(line)["number"] for part in parts for line in part.read_text().splitlines()]


def test_a_second_run_is_refused_and_disturbs_nothing(run: Run, tmp_path: Path) -> None:
    first = run(failpoints=f"{COMMITTED}:1:say")
    first.until(COMMITTED)
    code, said = run().end()
    assert code == 1
    assert "the checkpoint directory 'checkpoints/job' is in use by job 'job' of" in said
    assert f"process {first.process.pid}, since" in said
    assert "--take-over" in said
    assert "damaged" not in said and "--accept-duplicates" not in said
    first.until(COMMITTED)
    first.send(signal.SIGTERM)
    assert first.end()[0] == 0
    found = rows(tmp_path / "out")
    assert found == list(range(len(found)))


@pytest.mark.parametrize("take_over", [False, True])
def test_two_paths_to_one_output_are_one_output_of_a_run(tmp_path: Path, take_over: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    stream = ps.read_memory([{"number": 1}], schema={"number": int}, job=ps.Job())
    stream.write_json(tmp_path / "out").name("as json")
    stream.write_parquet(tmp_path / "link").name("as parquet")
    stream.job.run("job", directory=tmp_path / "job", take_over=take_over)
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".jsonl", ".parquet"]


def test_a_run_that_was_killed_holds_nobody_up(run: Run, tmp_path: Path) -> None:
    for _ in range(3):
        child = run(failpoints=f"{COMMITTED}:2:say")
        child.until(COMMITTED)
        child.send(signal.SIGKILL)
        # Not waited for: it may be there as a zombie still.
    last = run(failpoints=f"{COMMITTED}:1:say")
    last.until(COMMITTED)
    last.send(signal.SIGTERM)
    code, said = last.end()
    assert code == 0
    assert "WAITING" not in said
    found = rows(tmp_path / "out")
    assert found == list(range(len(found)))


@pytest.mark.long("two more runs; the sleeper of [sink.move.before] is taken over too")
def test_a_run_that_is_taken_over_ends_with_a_sentence(run: Run, tmp_path: Path) -> None:
    first = run(failpoints=f"{COMMITTED}:1:say")
    first.until(COMMITTED)
    second = run("--take-over", failpoints=f"{COMMITTED}:1:say")
    code, said = first.end()
    assert code == 1
    assert "another run has taken over the checkpoint directory 'checkpoints/job'" in said
    assert f"process {second.process.pid}" in said
    assert "Traceback" not in said and "RESTARTED" not in said
    # The state of the first one went away beside the second's and took nothing of it along.
    second.until(COMMITTED)
    second.until(COMMITTED)
    second.send(signal.SIGTERM)
    code, said = second.end()
    assert (code, "RESTARTED" in said) == (0, False), said
    assert not list((tmp_path / "job").glob("scratch/*"))
    found = rows(tmp_path / "out")
    assert found == list(range(len(found)))


@pytest.mark.parametrize(
    "point",
    but_for(
        [
            "checkpoint.manifest.before_publish",
            pytest.param("checkpoint.manifest.published", marks=pytest.mark.slow),
            pytest.param("checkpoint.before_commit", marks=pytest.mark.slow),
            pytest.param("sink.manifest.before", marks=pytest.mark.slow),
            "sink.move.before",
            pytest.param("checkpoint.retain.before_manifest", marks=pytest.mark.slow),
        ],
        ["sink.move.before"],
        "three runs for each point; [sink.move.before] stays",
    ),
)
def test_nothing_becomes_visible_of_a_run_that_slept_while_it_was_taken_over(
    run: Run, tmp_path: Path, point: str
) -> None:
    """It sleeps between the check of its lease and what it does next, and does that when it wakes."""
    sleeper = run(failpoints=f"{point}:4:stop")
    sleeper.until(point)
    taker = run("--take-over", failpoints=f"{COMMITTED}:3:say")
    taker.until(COMMITTED)
    before = ps.read_checkpoint(tmp_path / "checkpoints" / "job").epoch
    time.sleep(SLEPT_S)
    sleeper.send(signal.SIGCONT)
    code, said = sleeper.end()
    assert code == 1
    assert "another run has taken over" in said
    taker.until(COMMITTED)
    taker.send(signal.SIGTERM)
    code, said = taker.end()
    assert (code, "SKIPPED" in said, "RESTARTED" in said) == (0, False, False), said
    last = ps.read_checkpoint(tmp_path / "checkpoints" / "job")
    assert last.warning is None and last.epoch > before
    found = rows(tmp_path / "out")
    assert found == list(range(len(found)))
    # And the next run goes on exactly there.
    third = run(failpoints=f"{COMMITTED}:1:say")
    third.until(COMMITTED)
    third.send(signal.SIGTERM)
    assert third.end()[0] == 0
    further = rows(tmp_path / "out")
    assert further == list(range(len(further))) and len(further) >= len(found)


@pytest.mark.long("two more runs each; test_in_one_process_a_job_runs_once_and_again_when_it_has_ended")
@pytest.mark.parametrize("checkpoints", [True, False])
def test_two_jobs_do_not_write_to_one_output(run: Run, tmp_path: Path, checkpoints: bool) -> None:
    first = run(failpoints="lease.held:1:say", checkpoints=checkpoints)
    first.until("lease.held")
    if checkpoints:
        first.until("lease.held")
    code, said = run("--name=other", checkpoints=checkpoints).end()
    assert code == 1
    assert "the output '" in said and "out' is in use by job 'job' of" in said
    assert f"process {first.process.pid}, since" in said
    first.send(signal.SIGTERM)
    assert first.end()[0] == 0
    assert sorted(rows(tmp_path / "out")) == list(range(len(rows(tmp_path / "out"))))


@pytest.mark.long("four runs; test_a_run_that_was_killed_holds_nobody_up, with checkpoints")
def test_without_checkpoints_the_output_of_a_killed_run_is_taken_at_once_and_nothing_is_left_over(
    run: Run, tmp_path: Path
) -> None:
    for out, kept in (("out", tmp_path / "out" / "_penstock"), ("out.jsonl", tmp_path / ".out.jsonl.penstock")):
        first = run(out=out, failpoints="lease.held:1:say", checkpoints=False)
        first.until("lease.held")
        assert kept.is_dir()
        first.send(signal.SIGKILL)
        code, said = run(out=out, last=1_000, checkpoints=False).end()
        assert (code, "WAITING" in said) == (0, False), said
        assert not kept.exists()
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 1_000


def test_without_checkpoints_a_run_that_is_taken_over_ends_at_its_heartbeat_and_puts_nothing_in_place(
    run: Run, tmp_path: Path
) -> None:
    first = run(failpoints="lease.held:1:say", checkpoints=False)
    first.until("lease.held")
    assert run("--take-over", last=1_000, checkpoints=False).end()[0] == 0
    code, said = first.end()
    assert code == 1
    assert "another run has taken over the output" in said
    assert rows(tmp_path / "out") == list(range(1_000))


@pytest.mark.long("waits for a lease; test_interrupt has signals at other waits of a start")
def test_a_run_that_waits_for_a_lease_hears_sigterm(run: Run, tmp_path: Path) -> None:
    first = run(failpoints=f"{COMMITTED}:1:say")
    first.until(COMMITTED)
    first.send(signal.SIGKILL)
    first.end()
    record = next((tmp_path / "checkpoints" / "job" / "runs").glob("??????????.json"))
    told = json.loads(record.read_text())
    told["owner"]["machine"] = "another machine"
    record.write_text(json.dumps(told))
    second = run()
    assert second.process.stderr is not None
    for line in second.process.stderr:
        if "WAITING" in line:
            break
    second.send(signal.SIGTERM)
    code, said = second.end()
    assert code == 0
    assert "STOPPED: 'job' had not begun" in said
    assert list((tmp_path / "checkpoints" / "job" / "runs").glob("*.claim")) == []


def test_in_one_process_a_job_runs_once_and_again_when_it_has_ended(tmp_path: Path) -> None:
    options = {"checkpoint_dir": tmp_path / "kept", "checkpoint_interval": "50ms"}
    with running(tmp_path, "items", checkpoint_interval="50ms"):
        with pytest.raises(ps.InUseError, match=r"is in use by job 'items'"):
            per_item(tmp_path).run("items", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "again")
        with pytest.raises(ps.InUseError, match=r"the output .* is in use by job 'items'"):
            per_item(tmp_path).run("others", directory=tmp_path / "again", **options)
    with running(tmp_path, "items", checkpoint_interval="50ms", take_over=True) as handle:
        taker = per_item(tmp_path).start(
            "items", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "again", take_over=True
        )
        with pytest.raises(ps.FencedError, match="another run has taken over"):
            handle.wait(LONG_S)
        taker.stop()
