"""Limits that were changed hold for the runs that go on from the job's checkpoints, until they are taken back."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.control.shedding_scope import check_limits
from penstock.engine.jobs.kept_limits import LIMITS, LimitsFile, decode_limits, encode_limits
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.model.control import NO_LIMITS, Limits, QueryLimit, limits_of
from penstock.model.errors import CheckpointError, FencedError, OptionError, RetryableError
from penstock.state.files.local_files import LocalFiles
from tests.engine.control.simulated_stream import one_query

HALF = Limits("qod", {"sink": QueryLimit(0.5, 3)})


def allow() -> None:
    """Be the run that has the checkpoints."""


def run_of(files: LocalFiles, said: list[str], started: str = "off", *, anew: bool = False) -> RunningLimits:
    limits = RunningLimits()
    limits.keep(LimitsFile(files, allow), anew=anew, warn=said.append)
    limits.watch(lambda wanted: check_limits(one_query(), wanted), started)
    return limits


def test_a_later_run_has_the_limits_of_the_one_before(tmp_path: Path) -> None:
    files, said = LocalFiles(tmp_path), list[str]()
    first = run_of(files, said, anew=True)
    first.change(Limits("qod"))
    first.change(limits_of(None, "sink", 0.5, None))
    assert first.change(limits_of(None, "sink", None, 3)) == HALF and not said
    assert run_of(files, said).wanted == HALF
    assert said == [
        "LIMITS: shed qod; sink accuracy 0.5, priority 3, as they were changed in an earlier run; --reset takes them "
        "back."
    ]
    assert run_of(files, said, anew=True).wanted == NO_LIMITS
    assert run_of(files, []).wanted == NO_LIMITS and not (tmp_path / LIMITS).exists()


def test_what_was_changed_before_the_first_checkpoint_outlives_a_head(tmp_path: Path) -> None:
    files, noted = LocalFiles(tmp_path), list[tuple[Limits, str | None]]()
    first = run_of(files, [], anew=True)
    first.noted = lambda limits, started: noted.append((limits, started))
    first.change(HALF)
    assert noted == [(HALF, "off")]
    # The head that follows hears of them before or after its controllers watch.
    for watches_first in (True, False):
        second, said = RunningLimits(), list[str]()
        if watches_first:
            second.watch(lambda wanted: check_limits(one_query(), wanted), "off")
        second.begin(*noted[-1])
        second.keep(LimitsFile(files, allow), anew=True, warn=said.append)
        if not watches_first:
            second.watch(lambda wanted: check_limits(one_query(), wanted), "off")
        assert second.wanted == HALF
        assert run_of(files, []).wanted == HALF


def test_what_was_changed_is_taken_back(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    run_of(files, [], anew=True).change(HALF)
    assert run_of(files, []).change(limits_of(None, "sink", None, None, reset=True)) == Limits("qod")
    run_of(files, []).change(HALF)
    other = limits_of(None, "sink", None, 4, reset=True)
    assert run_of(files, []).change(other) == Limits("qod", {"sink": QueryLimit(priority=4)})
    assert run_of(files, []).change(limits_of(None, None, None, None, reset=True)) == NO_LIMITS
    assert not (tmp_path / LIMITS).exists()


def test_another_way_to_start_and_another_program_win(tmp_path: Path) -> None:
    files, said = LocalFiles(tmp_path), list[str]()
    run_of(files, [], anew=True).change(HALF)
    assert run_of(files, said, "qod-paper").wanted == Limits(None, HALF.queries)
    assert "shed='qod' of an earlier run is let go" in said[0]
    files.write(LIMITS, encode_limits(Limits(None, {"gone": QueryLimit(0.5), "sink": QueryLimit(0.5)}), "off"))
    assert run_of(files, said).wanted == Limits(None, {"sink": QueryLimit(0.5)})
    assert any("those of query 'gone' of an earlier run are let go: there is no query 'gone'" in line for line in said)


def test_what_sheds_is_let_go_where_the_program_cannot_have_it_any_more(tmp_path: Path) -> None:
    files, said = LocalFiles(tmp_path), list[str]()
    run_of(files, said, anew=True).change(Limits("sic", HALF.queries))

    def refuse_sic(wanted: Limits) -> None:
        if wanted.shed == "sic":
            raise OptionError("rows are sampled by their keys here")

    limits = RunningLimits()
    limits.keep(LimitsFile(files, allow), anew=False, warn=said.append)
    limits.watch(refuse_sic, "off")
    assert limits.wanted == Limits(None, HALF.queries)
    assert said[0] == "LIMITS: shed='sic' of an earlier run is let go: rows are sampled by their keys here."


def test_a_change_that_cannot_be_kept_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(tmp_path)

    def fail(path: str, content: object) -> int:
        raise RetryableError("the disk is full")

    limits = run_of(files, [], anew=True)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", fail)
        with pytest.raises(RetryableError, match="disk is full"):
            limits.change(HALF)
    assert limits.wanted == NO_LIMITS and run_of(files, []).wanted == NO_LIMITS

    def fenced() -> None:
        raise FencedError("another run has taken over")

    other = RunningLimits()
    other.watch(lambda wanted: None, "off")
    other.keep(LimitsFile(files, fenced), anew=False, warn=print)
    with pytest.raises(FencedError):
        other.change(HALF)


def test_a_file_is_what_was_written_or_refused(tmp_path: Path) -> None:
    assert decode_limits(encode_limits(HALF, "off")) == (HALF, "off")
    for wrong in (b"", b"[]", b'{"version": 2}', b'{"version": 1, "shed": "x", "started": null, "queries": {}}'):
        with pytest.raises(ValueError):
            decode_limits(wrong)
    LocalFiles(tmp_path).write(LIMITS, b"no JSON")
    with pytest.raises(CheckpointError, match=r"limits\.json beside the checkpoints cannot be read"):
        run_of(LocalFiles(tmp_path), [])


def test_a_job_goes_on_with_its_limits(tmp_path: Path) -> None:
    def run(savepoint: str, *, reset: bool = False) -> Limits:
        job = ps.Job()
        rows = ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids")
        rows.write_black_hole().name("out").with_min_accuracy(0.9)
        handle = job.start("limited", checkpoint_dir=tmp_path, control=ps.Control(shed="qod", mode="act"))
        handle.savepoint(savepoint, 30.0)
        assert isinstance(handle._job, RecoveringJob)
        found = handle._job.limits.wanted
        with pytest.raises(OptionError, match="there is no query 'in'"):
            handle.limit("in", min_accuracy=0.5)
        handle.limit(reset=True) if reset else handle.limit("out", min_accuracy=0.5)
        handle.stop()
        return found

    assert run("one") == NO_LIMITS
    assert run("two", reset=True) == Limits(None, {"out": QueryLimit(0.5)})
    assert run("three") == NO_LIMITS
