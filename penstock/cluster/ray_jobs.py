"""Submits ``penstock run`` as a job of Ray, and follows it until its head actor runs."""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.cluster.submission import RUNNING
from penstock.engine.executors.ray.cluster import excluded_files, refusal, use_token_of_this_machine
from penstock.model.errors import UserError

LOOK_S = 0.5
"""The interval at which Ray is asked for the job's output."""


READY_S = 60.0
"""How long a cluster is asked again that takes no jobs yet."""

_NOT_READY = "No available agent"


class SubmissionError(UserError):
    """A pipeline could not be submitted, or ended before its job ran."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A call of ``penstock run``: the file in the folder that goes along, its arguments, and options by name."""

    file: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """Return it as a line for a shell."""
        options = [f"{option}={value}" for option, value in self.options.items()]
        words = ["penstock", "run", *options, "--executor=ray", self.file]
        return shlex.join([*words, "--", *self.arguments] if self.arguments else words)


def submit_and_follow(
    command: RunCommand,
    folder: Path,
    address: str | None,
    say: Callable[[str], None],
    variables: Mapping[str, str] | None = None,
) -> str:
    """Submit a command with its folder; return Ray's name of the job once its head actor runs, or it is done.

    ``say`` takes what the job prints until then. ``variables`` are of the environment, of the command and of all that
    the job starts on the cluster.

    Raises:
        SubmissionError: Ray has no job submission here or cannot be reached, or the command failed.
        UserError: the cluster lets in only who has its token.
    """
    try:
        from ray.exceptions import RayError
        from ray.job_submission import JobStatus, JobSubmissionClient
    except ImportError as error:
        raise SubmissionError(_not_installed()) from error
    if address is None:
        use_token_of_this_machine()
    try:
        client = JobSubmissionClient(address)
        environment = {"working_dir": str(folder), "excludes": excluded_files(), "env_vars": dict(variables or {})}
        job = _submit(lambda: client.submit_job(entrypoint=command.line(), runtime_env=environment))
    except ImportError as error:
        raise SubmissionError(_not_installed()) from error
    except RayError as error:
        raise refusal(address or "auto", error) from None
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise SubmissionError(
            f"the pipeline cannot be submitted to Ray at {address or 'its default'}: {error}"
        ) from None
    shown = 0
    while True:
        status = client.get_job_status(job)
        lines = client.get_job_logs(job).splitlines()
        for line in lines[shown:]:
            say(line)
        shown = len(lines)
        if any(line.startswith(RUNNING) for line in lines) or status == JobStatus.SUCCEEDED:
            return str(job)
        if status.is_terminal():
            # What it has printed was said already, and stands in the message once more.
            message = (client.get_job_info(job).message or "it says no more").partition(", last available logs")[0]
            raise SubmissionError(f"job {job} of Ray is {status.lower()}: {message}")
        time.sleep(LOOK_S)


def _submit(submit: Callable[[], str]) -> str:
    """Submit; a cluster that has just begun has nobody yet to take jobs, and is asked again for `READY_S`."""
    until_s = time.monotonic() + READY_S
    while True:
        try:
            return submit()
        except RuntimeError as error:
            if _NOT_READY not in str(error) or time.monotonic() > until_s:
                raise
            time.sleep(LOOK_S)


def _not_installed() -> str:
    return "penstock submit needs Ray's job submission: pip install 'ray[default]'"
