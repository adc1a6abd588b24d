"""Options and report of a chaos experiment."""

from dataclasses import dataclass, field

import numpy as np

from penstock.engine.core.failpoint_settings import FailpointSetting
from penstock.model.errors import OptionError
from penstock.runs.run_options import EMBEDDED, PROCESSES, RAY, check_executor

COMMAND = "the command"
"""The name of the process that runs the pipeline, among those that are killed."""

HEAD_ACTOR = "the head actor"
"""The name of the process that has a job on Ray, among those that are killed."""


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Options of a chaos experiment on one pipeline.

    First its lives die at the points of the ``script``, in this order; then at each of ``points`` once, as they come;
    then by ``kills`` at seeded moments. Lives take turns in ``parallelism`` (empty: as the file says, on task managers
    one instance for each). One in which nothing happens for ``patience_s`` hangs.

    On an executor with task managers it is these that die, of which a run goes on, unless ``kill_head``: then it is the
    command, as on the embedded one, or on Ray the head actor, if the job has one. With ``stopped_s`` a strike at a
    moment is no kill: a task manager is stopped for a time between these two, in seconds. ``address`` is the Ray
    cluster (None: as for ``penstock run``).
    """

    kills: int = 10
    seed: int = 0
    points: tuple[str, ...] = ()
    script: tuple[FailpointSetting, ...] = ()
    checkpoint_interval: str = "1s"
    parallelism: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    batch_rows: int | None = None
    patience_s: float = 120.0
    executor: str = EMBEDDED
    task_managers: int | None = None
    transport: str | None = None
    kill_head: bool = False
    stopped_s: tuple[float, float] | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        """Check what is killed.

        Raises:
            OptionError: the embedded executor has no task managers, and no head to be told from them; there cannot be
                such a cluster.
        """
        check_executor(self.executor, self.task_managers, self.transport, self.address)
        if self.executor == EMBEDDED and (self.kill_head or self.stopped_s is not None):
            raise OptionError(
                f"there are no task managers to choose from: --kill-head needs --executor {PROCESSES} or {RAY}"
            )

    @property
    def strikes_managers(self) -> bool:
        """Whether task managers die, and not the command."""
        return self.executor != EMBEDDED and not self.kill_head


@dataclass(slots=True)
class ChaosReport:
    """Report of a chaos experiment.

    ``killed`` has how often each process was killed, or stopped, by its name. ``recoveries_s``: from a kill to the
    first checkpoint of what goes on after it, unless another kill came before that. ``rows_in`` and ``rows`` count what
    finished runs read and what was compared, ``fallbacks`` restarts at another than the newest checkpoint, ``replaced``
    task managers that were stopped for so long that the job gave them up, ``elsewhere`` those on other hosts, which
    cannot be killed from here; ``failure`` says why it ended early.
    """

    seed: int
    kills: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    after_checkpoint: int = 0
    restarts: int = 0
    runs: int = 0
    rows_in: int = 0
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    fallbacks: int = 0
    replaced: int = 0
    points: dict[str, int] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    recoveries_s: list[float] = field(default_factory=list)
    elsewhere: tuple[str, ...] = ()
    failure: str | None = None

    def count_kill(self, name: str) -> None:
        """Count a kill of the process of this name."""
        self.kills += 1
        self.killed[name] = self.killed.get(name, 0) + 1

    @property
    def exact(self) -> bool:
        """True if every run went through and nothing is lost or there twice."""
        return self.failure is None and not self.lost and not self.duplicated

    def recovery_s(self, percentile: float) -> float | None:
        """Return a percentile of the recovery times, None without any."""
        return float(np.percentile(self.recoveries_s, percentile)) if self.recoveries_s else None


class ChaosError(Exception):
    """A child ended in a way that no kill explains, or not at all."""
