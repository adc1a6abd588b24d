"""The outcome of a simulated run under one seed."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.engine.executors.simulation.moving import MoveCounts
from penstock.engine.executors.simulation.outputs import SinkDifference
from penstock.engine.executors.simulation.random_drains import DrainCounts
from penstock.engine.executors.simulation.rescales import RescaleCounts


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The outcome of one seed. ``problem`` is None if the committed output is that of the undisturbed run.

    ``crashes`` counts losses of power or of a worker, ``crashed_at`` failpoints at which power was lost, ``passed``
    failpoints that were passed, ``committed`` checkpoints; ``moves`` are those of key groups, ``rescales`` changes of
    parallelism and ``drains`` those of task managers, if there were to be any; ``routes`` counts changes of who gets
    how much.
    """

    seed: int
    problem: str | None
    differences: tuple[SinkDifference, ...]
    crashes: int
    crashed_at: Mapping[str, int]
    passed: Mapping[str, int]
    rescaled: int
    committed: int
    moves: MoveCounts | None
    rescales: RescaleCounts | None
    drains: DrainCounts | None
    routes: int
    turns: int
    virtual_ns: int
    story: tuple[str, ...]
    trace: str
