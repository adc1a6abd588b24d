"""Who has the lease of a folder, as its record there says: whoever reads the same record sees the same folder."""

from penstock.state.files.durable_files import DurableFiles, join_path
from penstock.state.leases.run_lease import RECORD_BYTES
from penstock.state.leases.run_records import RUNS, Owner, decode_record, held_name, read_names


def held_run(files: DurableFiles) -> int | None:
    """Return the run that has the lease of a folder; None: none has.

    Raises:
        RetryableError: the storage failed.
    """
    held = read_names(files.list(RUNS)).held
    return held[-1] if held else None


def owner_of(files: DurableFiles, run: int) -> Owner | None:
    """Return the owner of a run by its record in a folder; None: there is none that can be read.

    Raises:
        RetryableError: the storage failed.
    """
    try:
        data = files.read(join_path(RUNS, held_name(run)), RECORD_BYTES)
    except FileNotFoundError:
        return None
    record = decode_record(data)
    return None if record is None else record.owner
