"""What a run on real parts is: an application, what is offered to it, who controls it, and the cores that it has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RealCase:
    """What is run: an application, its topics, and loads as parts of its capacity with how long each lasts, seconds.

    ``topics``: by topic the ``module:function`` of its messages; all are offered the same rate, or so many times that
    (``rates``), unevenly by partition (``shares``). ``calibration_rows``: how many rows of each topic, or so many times
    that, its capacity is measured with. ``exact``: the ``module:function`` that makes plain data of the cluster and the
    topics when the run is over; empty for none. ``batch_rows`` as of `run`.

    ``start``: more options of `start`; ``has_checkpoints``: they lie in its folder. ``first``: by topic the messages
    that it has before the first phase, which the job takes first. ``catch_up_s``: how long the job may go on after the
    last phase until nothing waits. ``restarts``: what a scaler recommends is done by savepoint, stop and start.
    ``is_watched``: it has an action log where nobody controls it, too. ``capacity``: rows/s that it can take, as it is
    known; 0: it is measured.
    """

    name: str
    application: str
    topics: Mapping[str, str]
    shares: tuple[float, ...]
    loads: tuple[tuple[float, float], ...]
    control: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    executor: str = "embedded"
    task_managers: int = 1
    calibration_rows: int = 4_000
    exact: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    batch_rows: int = 128
    start: Mapping[str, Any] = field(default_factory=dict)
    has_checkpoints: bool = False
    first: Mapping[str, str] = field(default_factory=dict)
    catch_up_s: float = 0.0
    restarts: bool = False
    is_watched: bool = False
    capacity: float = 0.0

    def rate_of(self, topic: str) -> float:
        """Return how many times the rate a topic has."""
        return self.rates.get(topic, 1.0)


@dataclass(frozen=True, slots=True)
class CoreShares:
    """The cores of this machine that the job has, and those of all else."""

    job: tuple[int, ...]
    others: tuple[int, ...]

    @classmethod
    def here(cls) -> "CoreShares":
        """Return the first core for the job, and the rest, or the same where there is no other."""
        cores = sorted(os.sched_getaffinity(0))
        return cls((cores[0],), tuple(cores[1:] or cores))
