"""Reads, writes and updates of values under uniform keys, by memory (section 3, Figure 4), each in its own process.

RocksDB reads past the page cache of the system, or as it does by default: then the cache hides every miss.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, in_turn
from penstock.benchmarks.papers.real.kept_case import FINISHED, kept_run
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.processes import measured

MODULE = "penstock.benchmarks.papers.state_process"
STATE = "state"
"""The name of all of these cases together."""

KINDS = ("read", "write", "update")
MEMORY_MB = (128, 256, 512, 1_024)

_SIZES: Mapping[Scale, tuple[int, int, tuple[int, ...]]] = {
    Scale.FULL: (1_000_000, 4_000_000, MEMORY_MB),
    Scale.SHORT: (1_000_000, 1_000_000, MEMORY_MB),
    Scale.SMOKE: (40_000, 40_000, (8, 64)),
}
"""Keys, operations, and memory in MB."""


@dataclass(frozen=True, slots=True)
class StateCase:
    """What is measured: ``operations`` of a kind, on values of 1 KB under so many keys, with so much memory."""

    kind: str
    memory_mb: int
    keys: int
    operations: int
    direct: bool = True

    @property
    def name(self) -> str:
        """The name of its folder, without the number of the run."""
        return f"{self.kind}-{self.memory_mb}{'' if self.direct else '-cached'}"


@dataclass(frozen=True, slots=True)
class StateRun:
    """Operations a second of a case."""

    case: StateCase
    per_s: float


def state_cases(scale: Scale) -> list[StateCase]:
    """Return what is measured: each kind with each memory, and reads through the page cache with the ends of it."""
    keys, operations, memory = _SIZES[scale]
    direct = [StateCase(kind, megabytes, keys, operations) for kind in KINDS for megabytes in memory]
    return [*direct, *(StateCase("read", end, keys, operations, direct=False) for end in (memory[0], memory[-1]))]


def state_runs(cases: Sequence[StateCase], runs: int, folder: Path, progress: Progress) -> list[StateRun]:
    """Return so many runs of each case in a folder; those that are not there yet are made.

    Raises:
        MeasurementFailedError: one failed; why stands on stderr.
        OptionError: a folder has a run of another case; none is made then.
    """
    wanted = [(case, folder / f"{case.name}-{number}") for number in range(1, runs + 1) for case in cases]
    for case, own in wanted:
        kept_run(case, own)
    return [state_run(case, own) for case, own in in_turn(wanted, "state", progress)]


def state_run(case: StateCase, folder: Path) -> StateRun:
    """Return a run, which is made if its folder does not have it.

    Raises:
        MeasurementFailedError: it failed; why stands on stderr.
        OptionError: the folder has a run of another case.
    """
    plain = kept_run(case, folder)
    if plain is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # The files of the state lie where results do: what is mounted elsewhere may be memory.
        request = {**asdict(case), "folder": str(folder)}
        plain = {"case": asdict(case), **measured(MODULE, [json.dumps(request)])}
        finished = folder / FINISHED
        part = finished.with_suffix(".part")
        part.write_text(json.dumps(plain), encoding="utf-8")
        part.replace(finished)
    return StateRun(case, plain["per_s"])
