"""The repository of a job's checkpoints, tried out before the job relies on it."""

from uuid import uuid4

from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.storage_probe import clear_probes, probe
from penstock.state.files.arrow_files import open_files


def open_repository(directory: str, job: str) -> CheckpointRepository:
    """Return the repository of ``job`` below a checkpoint directory.

    Raises:
        UserError: the directory cannot be used.
    """
    files = open_files(directory, job)
    probe(files, f"{directory.rstrip('/')}/{job}", uuid4().hex)
    clear_probes(files)
    return CheckpointRepository(files)
