"""Runs a user's file as Python would run it as a script, for the commands that take one."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Protocol

from penstock.dsl.handle import Handle
from penstock.dsl.job import Captured, Job, Launcher, beside_file, default_job, launching
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.errors import PlanError
from penstock.model.job_graph import SinkSpec
from penstock.runs.run_options import RunOptions, default_name


def capture(path: Path, arguments: Sequence[str] = ()) -> tuple[Job, RunOptions]:
    """Run a file up to its first ``run()`` or ``start()`` and return the job it hands over.

    Nothing is started. A file that calls neither hands over the default job. What its ``config=`` promises of queries
    is in it.

    Raises:
        PlanError: the file neither starts a job nor fills the default one.
    """
    recorder = _Recorder()
    with program(path, arguments), launching(recorder):
        with suppress(Captured):
            _execute(path)
        if recorder.captured is None:
            recorder.captured = _implied_job(path)
        job, options = recorder.captured
        return beside_file(job, options), options


def run_program(path: Path, arguments: Sequence[str], launcher: "ProgramLauncher") -> None:
    """Run a whole file; its ``run()`` and ``start()`` go to the launcher.

    If the file calls neither, the launcher gets the default job at the end.

    Raises:
        PlanError: the file neither starts a job nor fills the default one.
    """
    with program(path, arguments), launching(launcher):
        _execute(path)
        if not launcher.launches:
            launcher.launch(*_implied_job(path))
        launcher.finish()


class ProgramLauncher(Launcher, Protocol):
    """A launcher for a whole program: it knows how often it was called, and is told of the end."""

    launches: int

    def finish(self) -> None:
        """Wait for what still runs in the background."""


@contextmanager
def program(path: Path, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """Make a file the ``__main__`` module, with its folder on the path and its own ``sys.argv``.

    The module stays until the end of the block, so that what the file defined keeps working.
    """
    module = ModuleType("__main__")
    module.__file__ = str(path)
    saved = sys.modules.get("__main__"), sys.argv, list(sys.path)
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield module
    finally:
        main, sys.argv, sys.path[:] = saved
        if main is not None:
            sys.modules["__main__"] = main


def _execute(path: Path) -> None:
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, sys.modules["__main__"].__dict__)


def _implied_job(path: Path) -> tuple[Job, RunOptions]:
    job = default_job()
    if not any(isinstance(node.spec, SinkSpec) for node in job.graph.operators.values()):
        raise PlanError(
            f"{path} starts no job: it calls neither run() nor start(), and the default job has no "
            "sink; end a stream with write_..., print() or collect(), or call run() of your Job"
        )
    return job, RunOptions(default_name())


class _Recorder:
    """Keeps the first job and ends the file there."""

    captured: tuple[Job, RunOptions] | None = None

    def launch(self, job: Job, options: RunOptions) -> JobMetrics:
        self.captured = (job, options)
        raise Captured

    def start(self, job: Job, options: RunOptions) -> Handle:
        self.captured = (job, options)
        raise Captured
