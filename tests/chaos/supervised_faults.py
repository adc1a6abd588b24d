"""What befalls a supervised job, a fault a function: each takes the trial, and returns how the round went.

Called by `supervised`. A fault leaves the disk and the broker as they were; whether the job runs on is its outcome.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.chaos.child import Child
from tests.chaos.supervised_values import Round

if TYPE_CHECKING:
    from tests.chaos.supervised import Trial

PROMISE_S = 10.0
"""A job that cannot go on ends within this time."""

PATIENCE_S = 60.0
"""A job that can go on commits within this time."""

RAN_ON, ENDED = "ran on", "ended"


def stopped(trial: "Trial") -> Round:
    """SIGTERM: a last checkpoint, and the end."""
    job = trial.run_on()
    began = time.monotonic()
    os.kill(job.pid, signal.SIGTERM)
    return _must_end(trial, job, "stopped", began, code=0)


def killed(trial: "Trial") -> Round:
    """SIGKILL, and the next life goes on."""
    job = trial.run_on()
    trial.feed()
    job.kill()
    job.wait()
    trial.child = trial.start()
    return _runs_on(trial, trial.child, "killed", time.monotonic())


def full_at_start(trial: "Trial") -> Round:
    """The disk of the checkpoints is full when the job starts, and has room again after the promised time."""
    trial.run_on()
    trial.end()
    trial.disk.fill()
    return _started_into(trial, "full disk at start", trial.disk.clear)


def full_while_running(trial: "Trial") -> Round:
    """The disk fills under a running job, and has room again a little later."""
    return _struck(trial, "full disk", trial.disk.fill, trial.disk.clear)


def full_and_stopped(trial: "Trial") -> Round:
    """The disk fills, and the supervisor stops the job meanwhile."""
    return _struck_and_stopped(trial, "full disk, stopped", trial.disk.fill, trial.disk.clear)


def read_only_at_start(trial: "Trial") -> Round:
    """The checkpoints cannot be written when the job starts."""
    trial.run_on()
    trial.end()
    _set_read_only(trial)
    return _started_into(trial, "read-only at start", lambda: _set_writable(trial))


def read_only_while_running(trial: "Trial") -> Round:
    """The checkpoints can no longer be written, and then again."""
    return _struck(trial, "read-only", lambda: _set_read_only(trial), lambda: _set_writable(trial))


def directory_is_a_file(trial: "Trial") -> Round:
    """The supervisor was given the path of a file as the directory of checkpoints."""
    trial.run_on()
    trial.end()
    file = trial.folder / "a-file"
    file.write_text("not a directory")
    began = time.monotonic()
    trial.child = trial.start(checkpoints=file)
    return _must_end(trial, trial.child, "directory is a file", began)


def broker_absent_at_start(trial: "Trial") -> Round:
    """Nobody listens at the broker's address when the job starts."""
    trial.run_on()
    trial.end()
    trial.broker.stop()
    return _started_into(trial, "no broker at start", lambda: _start(trial))


def broker_silent_at_start(trial: "Trial") -> Round:
    """The broker accepts connections and does not answer."""
    trial.run_on()
    trial.end()
    _signal_broker(trial, signal.SIGSTOP)
    return _started_into(trial, "silent broker at start", lambda: _signal_broker(trial, signal.SIGCONT))


def broker_away(trial: "Trial") -> Round:
    """The broker goes and comes back under a running job."""
    return _struck(trial, "broker away", trial.broker.stop, lambda: _start(trial))


def broker_away_and_stopped(trial: "Trial") -> Round:
    """The broker goes, and the supervisor stops the job meanwhile."""
    return _struck_and_stopped(trial, "broker away, stopped", trial.broker.stop, lambda: _start(trial))


def second_run(trial: "Trial") -> Round:
    """The job is started while it runs: the second run is refused, the first does not notice."""
    job = trial.run_on()
    began = time.monotonic()
    second = trial.start()
    outcome = _ended(second, "second run", began)
    trial.feed()
    return outcome if outcome.wrong else _runs_on(trial, job, "second run", began, outcome.said)


def take_over(trial: "Trial") -> Round:
    """The job is started while it runs, and takes over: the first run ends, the second goes on."""
    first = trial.run_on()
    began = time.monotonic()
    trial.child = trial.start("--take-over")
    outcome = _ended(first, "take over", began)
    trial.feed()
    return outcome if outcome.wrong else _runs_on(trial, trial.child, "take over", began, outcome.said)


def changed_pipeline(trial: "Trial") -> Round:
    """Windows are of another length than those in the checkpoint."""
    trial.run_on()
    trial.end()
    began = time.monotonic()
    trial.child = trial.start(window="10s")
    return _must_end(trial, trial.child, "changed pipeline", began)


FAULTS: Final[dict[str, Callable[["Trial"], Round]]] = {
    fault.__name__: fault
    for fault in (
        stopped,
        killed,
        full_at_start,
        full_while_running,
        full_and_stopped,
        read_only_at_start,
        read_only_while_running,
        directory_is_a_file,
        broker_absent_at_start,
        broker_silent_at_start,
        broker_away,
        broker_away_and_stopped,
        second_run,
        take_over,
        changed_pipeline,
    )
}

ON_SMALL_DISK: Final = frozenset(name for name in FAULTS if name.startswith(("full_", "read_only_")))
"""Those that need a disk of their own, and the right to mount one."""


def _started_into(trial: "Trial", fault: str, over: Callable[[], None]) -> Round:
    """Start the job into a fault, which is over after the promised time or once the job has ended."""
    began = time.monotonic()
    trial.child = trial.start()
    try:
        outcome = _ended(trial.child, fault, began)
    finally:
        over()
    if trial.child.ended:
        trial.child.wait()
        trial.child = None
        return outcome
    trial.feed()
    # What it waits for must have been said by now.
    silent = "" if trial.child.said else "ran on without a word"
    went = _runs_on(trial, trial.child, fault, time.monotonic(), _last(trial.child))
    return Round(fault, went.outcome, went.seconds, went.said, went.wrong or silent)


def _struck(trial: "Trial", fault: str, strike: Callable[[], None], over: Callable[[], None]) -> Round:
    """Let a fault befall a running job; it may end, or go on when the fault is over."""
    job = trial.run_on()
    began = time.monotonic()
    strike()
    try:
        with suppress(TimeoutError):
            outcome = _ended(job, fault, began, patience_s=3.0)
    finally:
        over()
    if job.ended:
        job.wait()
        trial.child = None
        return outcome
    trial.feed()
    went = _runs_on(trial, job, fault, time.monotonic(), _last(job))
    if went.outcome == ENDED:
        trial.child = None
    return went


def _struck_and_stopped(trial: "Trial", fault: str, strike: Callable[[], None], over: Callable[[], None]) -> Round:
    """Stop a job while a fault lasts: it ends in time, cleanly or with a sentence."""
    job = trial.run_on()
    strike()
    try:
        began = time.monotonic()
        os.kill(job.pid, signal.SIGTERM)
        return _must_end(trial, job, fault, began, code=None)
    finally:
        over()


def _must_end(trial: "Trial", child: Child, fault: str, began: float, *, code: int | None = 1) -> Round:
    """Wait for the end of the job that counts; kill it, as the supervisor does, if that takes longer than promised."""
    outcome = _ended(child, fault, began, code=code)
    trial.child = None
    if not child.ended:
        child.kill()
        child.wait()
        said = _last(child)
        return Round(fault, "killed", time.monotonic() - began, said, f"had not ended after {PROMISE_S:.0f} s")
    return outcome


def _ended(child: Child, fault: str, began: float, *, code: int | None = 1, patience_s: float = PROMISE_S) -> Round:
    """Wait for the end; say whether it ended as it should: this exit code (None: any), a sentence, no traceback."""
    until = began + patience_s
    while not child.ended and time.monotonic() < until:
        child.next_point(until - time.monotonic())
    seconds = time.monotonic() - began
    if not child.ended:
        return Round(fault, RAN_ON, seconds, _last(child))
    found = child.wait()
    wrong = ""
    if code is not None and found != code:
        wrong = f"ended with exit code {found} instead of {code}"
    elif any("Traceback" in line for line in child.said):
        wrong = "ended with a traceback"
    elif found and not _last(child):
        wrong = "ended without a word"
    return Round(fault, ENDED, seconds, _last(child) if found else "", wrong)


def _runs_on(trial: "Trial", child: Child, fault: str, began: float, said: str = "") -> Round:
    """Wait for a commit of the job that counts."""
    while child.next_point(0.0) is not None:
        pass
    committed = not child.ended and child.next_point(PATIENCE_S) is not None
    seconds = time.monotonic() - began
    if committed:
        return Round(fault, RAN_ON, seconds, said)
    if child.ended and trial.child is child:
        trial.child = None
        found = child.wait()
        wrong = "" if found == 1 and _last(child) else f"ended with exit code {found}"
        return Round(fault, ENDED, seconds, _last(child), wrong)
    return Round(fault, RAN_ON, seconds, _last(child), f"committed nothing for {PATIENCE_S:.0f} s")


def _last(child: Child) -> str:
    """Return the error that a process ended with, or what it said last."""
    errors = [line for line in child.said if line.startswith("error")]
    return errors[-1] if errors else child.said[-1] if child.said else ""


def _set_read_only(trial: "Trial") -> None:
    while not trial.disk.set_read_only(True):
        time.sleep(0.01)


def _set_writable(trial: "Trial") -> None:
    trial.disk.set_read_only(False)


def _start(trial: "Trial") -> None:
    trial.broker.start()


def _signal_broker(trial: "Trial", number: signal.Signals) -> None:
    assert trial.broker.pid is not None
    os.kill(trial.broker.pid, number)
