"""The log of what controllers of a running job see and decide, and what became of it.

``penstock decide`` reads it again. A log that can no longer be written ends, and not the job.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.engine.control.policies import parameters_of
from penstock.model.errors import OptionError
from penstock.model.plan import Decision
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import ActionLog


class DecisionLog:
    """Snapshots and decisions of one run."""

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None],
        leaves_out: Collection[str] = (),
        most_bytes: int | None = None,
    ) -> None:
        """Open the file, or go on with it.

        Policies that it ``leaves_out`` are not in it. One of more than ``most_bytes`` is set aside as `before`, in
        place of that which was there, and another one is begun; None: it grows.

        Raises:
            OptionError: it cannot be written.
            ActionLogError: it is no action log.
        """
        self._path, self._warn = path, warn
        self._leaves_out, self._most_bytes = frozenset(leaves_out), most_bytes
        self._begun: dict[str, Mapping[str, Any]] = {}
        try:
            self._log: ActionLog | None = ActionLog(path, durable=False)
        except OSError as error:
            raise OptionError(
                f"action_log {str(path)!r} cannot be written ({error.strerror}): name a file in a folder that is there"
            ) from error
        self._logged = 0

    def begin(self, name: str, policy: Policy[Any], *, goes_on: bool = False) -> None:
        """A policy starts with an empty memory, or ``goes_on`` over another plan of the job."""
        if name in self._leaves_out:
            return
        parameters = self._begun[name] = parameters_of(policy)
        self._write(lambda log: log.policy(name, parameters, goes_on=goes_on))

    def add(self, snapshot: ClusterSnapshot, name: str, decision: Decision) -> None:
        """Keep a decision on a snapshot."""
        if name not in self._leaves_out:
            self._write(lambda log: self._add(log, snapshot, name, decision))

    def result(self, snapshot: ClusterSnapshot, name: str, outcome: str, detail: Mapping[str, Any]) -> None:
        """Keep what became of a decision on a snapshot."""
        self._write(lambda log: log.result(snapshot, name, outcome, detail))

    def sync(self) -> None:
        """Bring to disk what was kept: somebody acts on it."""
        self._write(ActionLog.sync)

    def close(self) -> None:
        """Close the file."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _add(self, log: ActionLog, snapshot: ClusterSnapshot, name: str, decision: Decision) -> None:
        if snapshot.number != self._logged:
            log.snapshot(snapshot)
            self._logged = snapshot.number
        log.decision(snapshot, name, decision)

    def _write(self, write: Callable[[ActionLog], None]) -> None:
        if self._log is None:
            return
        try:
            write(self._log)
            if self._most_bytes is not None and self._log.size > self._most_bytes:
                self._set_aside()
        except OSError as error:
            self._warn(f"ACTION LOG ENDED: {str(self._path)!r}: {error.strerror}; the job goes on without it.")
            with suppress(OSError):
                self.close()

    def _set_aside(self) -> None:
        self.close()
        self._path.replace(before(self._path))
        self._log, self._logged = ActionLog(self._path, durable=False), 0
        for name, parameters in self._begun.items():
            self._log.policy(name, parameters, goes_on=True)


def before(path: Path) -> Path:
    """Return where the log is set aside that had become too large."""
    return path.with_name(f"{path.stem}.before{path.suffix}")
