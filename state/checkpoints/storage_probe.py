"""A probe of a checkpoint directory before a job relies on it: a file is written, synced, read back and deleted."""

import errno

from penstock.model.errors import PenstockError, UserError
from penstock.state.checkpoints.repository import CHECKPOINTS
from penstock.state.checkpoints.uploads import FILES
from penstock.state.files.durable_files import DurableFiles, join_path

PROBE_PREFIX = "probe-"
"""The prefix of probe files; one left by a crash is no checkpoint, and is deleted at the next start."""

_CONTENT = bytes(range(256)) * 256
_NOT_A_FOLDER = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "let this user write there"),
}


def probe(files: DurableFiles, where: str, name: str) -> None:
    """Write to the folders of checkpoints below ``where``, under a ``name`` that nobody else uses.

    Raises:
        UserError: a step failed; the message names a remedy.
    """
    for folder in (FILES, CHECKPOINTS):
        path = join_path(folder, f"{PROBE_PREFIX}{name}")
        try:
            files.write(path, _CONTENT)
            content = files.read(path)
            files.delete(path)
        except (PenstockError, OSError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            raise UserError(f"the checkpoint directory {where!r} cannot be used: {_remedy(cause, error)}") from error
        if content != _CONTENT:
            raise UserError(
                f"the checkpoint directory {where!r} cannot be used: a file of {len(_CONTENT):,} bytes is read back as "
                f"{len(content):,} others; check its storage, or give another checkpoint_dir"
            )


def clear_probes(files: DurableFiles) -> None:
    """Remove the files of probes that a crash ended."""
    for folder in (FILES, CHECKPOINTS):
        files.delete(*(join_path(folder, name) for name in files.list(folder) if name.startswith(PROBE_PREFIX)))


def _remedy(cause: BaseException | None, error: BaseException) -> str:
    code = cause.errno if isinstance(cause, OSError) else None
    reason = (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)
    if code in _NOT_A_FOLDER:
        at = f" ({cause.filename})" if isinstance(cause, OSError) and cause.filename else ""
        return f"a file stands where a directory must be{at}; move it away, or give another checkpoint_dir"
    remedy = _REMEDIES.get(code or 0, "check that it is there and may be written")
    return f"{reason}; {remedy}, or give another checkpoint_dir"
