"""What the commands ``status``, ``stop``, ``savepoint`` and ``limits`` do and print; `jobs_client` asks the job."""

import json
import sys
from dataclasses import asdict, dataclass, replace

from penstock.engine.core.job_events import CheckpointCommitted, StateChanged
from penstock.http_api.answers import LimitsAnswer, StatusAnswer
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.jobs_client.errors import JobUnreachableError
from penstock.runs.metrics_token import read_token
from penstock.runs.own_token import own_token
from penstock.runs.run_options import LOOPBACK
from penstock.tables import bytes_text, count_text, seconds_text

FINISHED, FAILED = "finished", "failed"
"""The states of a job that is over."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job that was stopped; ``epoch`` is the last checkpoint that was committed meanwhile, if one was."""

    job: str
    state: str
    epoch: int | None
    savepoint: str | None
    error: str | None


def client_of(url: str, option: str, reference: str | None) -> JobClient:
    """Return the client of the job at a URL; ``reference`` is the value of the option that says where the token is.

    Without one, a job of the same user on this machine gets the token that it has made itself.

    Raises:
        OptionError: the URL is none, or the token cannot be read.
    """
    if reference is not None:
        return JobClient(parse_address(url, read_token(reference, option)))
    address = parse_address(url)
    # To another machine nothing is sent that was not given.
    return JobClient(replace(address, token=own_token(address.port)) if address.host in LOOPBACK else address)


def print_status(answer: StatusAnswer, *, as_json: bool) -> None:
    """Print a job in short."""
    if as_json:
        print(json.dumps(asdict(answer)))
        return
    rows = {
        "job": answer.job,
        "state": answer.state if answer.error is None else f"{answer.state}, after {answer.error}",
        "running": f"{seconds_text(answer.elapsed_ns / 1e9)}, attempt {answer.attempt}",
        "rows read": count_text(answer.source_rows),
        "late": count_text(answer.late_rows),
        "dead letters": count_text(answer.dead_letters),
        "shed": count_text(answer.shed_rows),
        "keep rates": "all" if answer.shedding is None else answer.shedding.sentence(),
        **({} if answer.scaling is None else {"scaling": answer.scaling.sentence()}),
        "state held": bytes_text(answer.state_bytes),
        "checkpoint": _checkpoint(answer),
        "restarts": count_text(answer.restarts),
        "actions": "with the action token" if answer.takes_actions else "none: it has no action token",
        "Penstock": answer.version,
    }
    for title, text in rows.items():
        print(f"{title:<14}{text}")


def stop_job(client: JobClient, *, drain: bool, savepoint: str | None) -> JobEnd:
    """Stop a job and wait until it has ended.

    Raises:
        UserError: it cannot be stopped, or did not say how it has ended.
    """
    epoch: int | None = None
    with client.events() as events:
        job = client.stop(drain=drain, savepoint=savepoint).job
        for message in events:
            match message.event:
                case CheckpointCommitted():
                    epoch = message.event.epoch
                case StateChanged(after="finished" | "failed" as state, error=error):
                    return JobEnd(job, state, epoch, savepoint if state == FINISHED else None, error)
    raise JobUnreachableError(
        f"job {job!r} was told to stop, and is gone from {client.address} without a word on how it has ended."
    )


def print_end(end: JobEnd, *, as_json: bool) -> None:
    """Print how a job has ended."""
    if as_json:
        print(json.dumps(asdict(end)))
        return
    if end.state == FAILED:
        print(f"{end.job} has failed: {end.error}", file=sys.stderr)
        return
    where = "" if end.epoch is None else f" at checkpoint {end.epoch}"
    kept = "" if end.savepoint is None else f", kept as savepoint {end.savepoint!r}"
    print(f"{end.job} has ended{where}{kept}")


def print_savepoint(job: str, name: str, epoch: int, *, as_json: bool) -> None:
    """Print that a savepoint is there."""
    if as_json:
        print(json.dumps({"job": job, "savepoint": name, "epoch": epoch}))
    else:
        print(f"savepoint {name!r} of {job} is there: checkpoint {epoch}")


def print_limits(answer: LimitsAnswer, *, as_json: bool) -> None:
    """Print the limits of a job that differ from those of its program."""
    if as_json:
        print(json.dumps(asdict(answer)))
        return
    shed = "as it was started" if answer.shed is None else answer.shed
    print(f"limits of {answer.job} from the next cycle on: shed {shed}")
    for query, limit in answer.queries.items():
        values = {
            "minimum accuracy": limit.min_accuracy,
            "maximum error": limit.max_error,
            "priority": limit.priority,
        }
        said = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
        print(f"  {query!r}: {said}")


def _checkpoint(answer: StatusAnswer) -> str:
    if not answer.takes_checkpoints:
        return "it takes none"
    return "none yet" if answer.last_epoch is None else str(answer.last_epoch)
