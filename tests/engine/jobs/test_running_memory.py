"""The memory of operators as it is changed: what is refused, what holds for later runs, and how it adds up."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.jobs.kept_memory import MEMORY, MemoryFile, decode_budgets
from penstock.engine.jobs.running_memory import MemorySummary, OperatorMemory, RunningMemory
from penstock.model.config import LoopOptions
from penstock.model.errors import CheckpointError, FencedError, OptionError, RetryableError
from penstock.model.execution_graph import ExecutionGraph
from penstock.state.files.local_files import LocalFiles

MB = 1 << 20
LOOP = LoopOptions(state_bytes=64 * MB)


def graph(*names: str, parallelism: int = 2) -> ExecutionGraph:
    """Return the plan of a job that counts by key under each of these names."""
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids")
    bids.write_black_hole()
    for name in names:
        bids.key_by("auction").agg(n=ps.count()).name(name).write_black_hole(mode="changelog").name(f"out {name}")
    return job.plan(parallelism)


def allow() -> None:
    """Be the run that has the checkpoints."""


def run_of(files: LocalFiles, said: list[str], *names: str, anew: bool = False) -> RunningMemory:
    memory = RunningMemory()
    memory.keep(MemoryFile(files, allow), graph(*names), anew=anew, warn=said.append)
    return memory


def change(memory: RunningMemory, *names: str, **budgets: int | None) -> MemorySummary:
    return memory.change(graph(*names), LOOP, budgets, paged=True)


def test_budgets_are_of_each_instance_and_add_up() -> None:
    memory = RunningMemory()
    assert memory.look(graph("a", "b"), LOOP).total_bytes == 4 * 64 * MB
    summary = change(memory, "a", "b", a=128 * MB)
    assert summary == MemorySummary(
        (OperatorMemory("a", 2, 64 * MB, 128 * MB), OperatorMemory("b", 2, 64 * MB, 64 * MB)), 384 * MB, None
    )
    assert change(memory, "a", "b", a=None).operators[0] == OperatorMemory("a", 2, 128 * MB, 64 * MB)
    assert memory.wanted == {"a": 64 * MB}
    unbounded = memory.look(graph("a"), LoopOptions())
    assert unbounded.operators == (OperatorMemory("a", 2, 64 * MB, 64 * MB),)


def test_what_cannot_be_is_refused_with_its_reason_and_a_preview_changes_nothing() -> None:
    memory = RunningMemory()
    two = graph("a", "b")
    for budgets, paged, sentence in (
        ({"c": 8 * MB}, True, "no operator 'c' has state by keys, whose memory could change: these have: 'a', 'b'"),
        ({"bids": 8 * MB}, True, "no operator 'bids' has state by keys"),
        ({"a": MB}, True, "the memory of 'a' in bytes must be a whole number of at least 2097152, not 1048576"),
        ({}, True, "say which operators are to have which memory"),
        ({"a": 8 * MB}, False, "the job keeps all its state in memory, and has nowhere to put what is above a budget"),
    ):
        for ask in (memory.change, memory.preview):
            with pytest.raises(OptionError, match=sentence):
                ask(two, LOOP, budgets, paged=paged)
    with pytest.raises(OptionError, match="none of the job has"):
        memory.change(graph(), LOOP, {"a": 8 * MB}, paged=True)
    assert memory.preview(two, LOOP, {"a": 8 * MB}, paged=True).operators[0].after_bytes == 8 * MB
    assert not memory.wanted


def test_one_order_takes_from_one_operator_what_it_gives_another_within_the_quota() -> None:
    memory = RunningMemory()
    memory.quota_bytes = 256 * MB
    with pytest.raises(OptionError, match=r"all budgets would be 402,653,184 bytes, and the job may have 268,435,456"):
        change(memory, "a", "b", a=128 * MB)
    assert change(memory, "a", "b", a=120 * MB, b=8 * MB).total_bytes == 256 * MB
    # A job that has more already may have less, and not yet more.
    memory.quota_bytes = 100 * MB
    assert change(memory, "a", "b", a=100 * MB).total_bytes == 216 * MB
    with pytest.raises(OptionError, match="lower that of another operator in the same order"):
        change(memory, "a", "b", a=101 * MB)


def test_a_later_run_has_the_budgets_of_the_one_before(tmp_path: Path) -> None:
    files, said = LocalFiles(tmp_path), list[str]()
    first = run_of(files, said, "a", "b", anew=True)
    change(first, "a", "b", a=8 * MB, b=16 * MB)
    assert run_of(files, said, "a", "b").wanted == {"a": 8 * MB, "b": 16 * MB} and not said
    assert run_of(files, said, "a").wanted == {"a": 8 * MB}
    assert said == ["MEMORY: of an earlier run the budget of 'b' is let go: it has no state"]
    second = run_of(files, [], "a", "b")
    change(second, "a", "b", a=None, b=None)
    assert not (tmp_path / MEMORY).exists()
    change(second, "a", "b", a=8 * MB)
    assert not run_of(files, [], "a", "b", anew=True).wanted and not (tmp_path / MEMORY).exists()


def test_a_change_before_there_is_anywhere_to_keep_it_is_kept_then(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    change(run_of(files, [], "a", "b", anew=True), "a", "b", a=8 * MB, b=8 * MB)
    memory = RunningMemory()
    change(memory, "a", "b", a=16 * MB)
    memory.keep(MemoryFile(files, allow), graph("a", "b"), anew=False, warn=print)
    assert memory.wanted == {"a": 16 * MB, "b": 8 * MB}
    assert run_of(files, [], "a", "b").wanted == {"a": 16 * MB, "b": 8 * MB}


def test_a_change_that_cannot_be_kept_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(tmp_path)

    def fail(path: str, content: object) -> int:
        raise RetryableError("the disk is full")

    memory = run_of(files, [], "a", anew=True)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", fail)
        with pytest.raises(RetryableError, match="disk is full"):
            change(memory, "a", a=8 * MB)
    assert not memory.wanted and not run_of(files, [], "a").wanted

    def fenced() -> None:
        raise FencedError("another run has taken over")

    other = RunningMemory()
    other.keep(MemoryFile(files, fenced), graph("a"), anew=False, warn=print)
    with pytest.raises(FencedError):
        change(other, "a", a=8 * MB)


def test_a_file_is_what_was_written_or_refused(tmp_path: Path) -> None:
    assert decode_budgets(b'{"version": 1, "budgets": {"a": 5}}') == {"a": 5}
    for wrong in (
        b"",
        b"[]",
        b'{"version": 2, "budgets": {}}',
        b'{"version": 1}',
        b'{"version": 1, "budgets": {"a": "5"}}',
        b'{"version": 1, "budgets": {"a": 0}}',
        b'{"version": 1, "budgets": {"a": true}}',
    ):
        with pytest.raises(ValueError):
            decode_budgets(wrong)
    LocalFiles(tmp_path).write(MEMORY, b"no JSON")
    with pytest.raises(CheckpointError, match=r"memory\.json beside the checkpoints cannot be read"):
        run_of(LocalFiles(tmp_path), [], "a")


def test_what_was_changed_before_the_first_checkpoint_outlives_a_head(tmp_path: Path) -> None:
    """A head that follows begins anew, as there is no checkpoint, and yet with what the one before was told."""
    files, said, noted = LocalFiles(tmp_path), list[str](), list[Mapping[str, int | None]]()
    first = run_of(files, said, "a", anew=True)
    first.noted = noted.append
    change(first, "a", a=8 * MB)
    assert noted == [{"a": 8 * MB}]
    second = RunningMemory()
    second.begin(noted[-1])
    second.keep(MemoryFile(files, allow), graph("a"), anew=True, warn=said.append)
    assert second.wanted == {"a": 8 * MB}
    # A run behind it finds it, too.
    assert run_of(files, said, "a").wanted == {"a": 8 * MB}
    # One that begins anew for itself does not.
    assert run_of(files, said, "a", anew=True).wanted == {} and not (tmp_path / MEMORY).exists()
