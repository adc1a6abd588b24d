"""Options and report of a chaos experiment."""

from dataclasses import dataclass, field

import numpy as np

from penstock.engine.core.failpoint_settings import FailpointSetting


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Options of a chaos experiment on one pipeline.

    First its lives die at the points of the ``script``, in this order; then at each of ``points`` once, as they come;
    then by ``kills`` at seeded moments. Lives take turns in ``parallelism`` (empty: as the file says). One in which
    nothing happens for ``patience_s`` hangs.
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


@dataclass(slots=True)
class ChaosReport:
    """Report of a chaos experiment.

    ``recoveries_s``: from a kill to the next checkpoint, unless another kill came before that. ``rows_in``
    and ``rows`` count what finished runs read and what was compared, ``fallbacks`` restarts at another than the newest
    checkpoint; ``failure`` says why it ended early.
    """

    seed: int
    kills: int = 0
    after_checkpoint: int = 0
    restarts: int = 0
    runs: int = 0
    rows_in: int = 0
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    fallbacks: int = 0
    points: dict[str, int] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    recoveries_s: list[float] = field(default_factory=list)
    failure: str | None = None

    @property
    def exact(self) -> bool:
        """True if every run went through and nothing is lost or there twice."""
        return self.failure is None and not self.lost and not self.duplicated

    def recovery_s(self, percentile: float) -> float | None:
        """Return a percentile of the recovery times, None without any."""
        return float(np.percentile(self.recoveries_s, percentile)) if self.recoveries_s else None


class ChaosError(Exception):
    """A child ended in a way that no kill explains, or not at all."""
