"""``penstock simulate``: recorded rows run under many seeds of faults, each compared with an undisturbed run.

Sources are read once, sinks are never written (docs/design/simulated-runs.md 3).
"""

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dsl.job import Job
from penstock.engine.executors.simulated import SeedResult, Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import KINDS, Faults
from penstock.engine.executors.simulation.paged import SimulatedPaging, paging_of
from penstock.model.config import check_count
from penstock.model.errors import OptionError

NOT_PROMISED = (
    "not compared, as they depend on timing: late rows, processing time, order of arrival, unordered calls, "
    "and the order of rows"
)

_SHOWN = 60
"""Number of lines of a history that are printed."""


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """``seeds`` in order; ``rows`` is the most that is read of each source.

    ``state_bytes``: byte budget of keyed state per operator instance (None: unbounded, and no pages).
    """

    seeds: range
    faults: Faults = Faults()
    rows: int = 100_000
    parallelism: int = 2
    state_bytes: int | None = None

    def __post_init__(self) -> None:
        check_count("rows", self.rows)
        check_count("parallelism", self.parallelism)
        if self.state_bytes is not None:
            check_count("state_bytes", self.state_bytes)


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Results of the seeds; ``failed`` is the first whose output differs, after which none was run."""

    rows: int
    seeds: int
    crashes: int
    crashed_at: dict[str, int]
    rescaled: int
    committed: int
    left_out: dict[str, str]
    notes: tuple[str, ...]
    failed: SeedResult | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        failed = self.failed
        return {
            "status": "same" if failed is None else "differs",
            "rows": self.rows,
            "seeds": self.seeds,
            "crashes": self.crashes,
            "crashed_at": self.crashed_at,
            "rescaled": self.rescaled,
            "checkpoints": self.committed,
            "left_out": self.left_out,
            "notes": [*self.notes, NOT_PROMISED],
            "failed": None
            if failed is None
            else {
                "seed": failed.seed,
                "problem": failed.problem,
                "examples": [text for item in failed.differences for text in item.examples],
                "history": list(failed.story),
            },
        }


def parse_seeds(text: str) -> range:
    """Return the seeds of ``7`` or ``1..200``, both ends included.

    Raises:
        OptionError: it is neither.
    """
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text.strip())
    if match is None or (match.group(2) is not None and int(match.group(2)) < int(match.group(1))):
        raise OptionError(f"seeds are one number or a range such as 1..200, not {text!r}")
    first = int(match.group(1))
    return range(first, int(match.group(2) or first) + 1)


def parse_faults(text: str | None) -> Faults:
    """Return the faults of ``crash,delay``; all of them without text, none for ``none``.

    Raises:
        OptionError: there is no such fault.
    """
    if text is None:
        return Faults.of(KINDS)
    return Faults.of(() if text == "none" else text.split(","))


def simulate(job: Job, options: SimulateOptions) -> SimulationReport:
    """Run a job's graph under the seeds, up to the first that differs.

    Raises:
        PlanError: none of its sinks can be compared.
    """
    recording = record_pipeline(job.graph, options.rows, time.sleep)
    with tempfile.TemporaryDirectory(prefix="penstock-simulate-") as directory:
        paging = None
        if options.state_bytes is not None:
            paging = SimulatedPaging(Path(directory), paging_of(options.state_bytes))
        simulation = Simulation(recording, parallelism=options.parallelism, faults=options.faults, paging=paging)
        return _report(simulation, options.seeds)


def _report(simulation: Simulation, seeds: Iterable[int]) -> SimulationReport:
    crashed_at: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    failed = None
    for result in _until_different(simulation, seeds):
        counts.update(seeds=1, crashes=result.crashes, rescaled=result.rescaled, committed=result.committed)
        crashed_at.update(result.crashed_at)
        failed = result if result.problem is not None else None
    return SimulationReport(
        rows=simulation.recording.rows,
        seeds=counts["seeds"],
        crashes=counts["crashes"],
        crashed_at=dict(sorted(crashed_at.items())),
        rescaled=counts["rescaled"],
        committed=counts["committed"],
        left_out=simulation.left_out,
        notes=simulation.recording.notes,
        failed=failed,
    )


def print_report(report: SimulationReport, *, as_json: bool) -> None:
    """Print JSON to stdout, or sentences."""
    if as_json:
        print(json.dumps(report.as_dict()), flush=True)
        return
    for name, why in report.left_out.items():
        print(f"sink {name!r} is left out, as {why}")
    for note in report.notes:
        print(note)
    print(NOT_PROMISED)
    print(
        f"{report.seeds:,} seeds over {report.rows:,} rows: {report.crashes:,} crashes at "
        f"{len(report.crashed_at)} failpoints and between turns, {report.rescaled:,} changes of parallelism, "
        f"{report.committed:,} checkpoints"
    )
    failed = report.failed
    if failed is None:
        print("every seed put out what the undisturbed run did")
        return
    print(f"\nseed {failed.seed} differs: {failed.problem}")
    for item in failed.differences:
        for text in item.examples:
            print(f"  {text}")
    print(f"its history (all of it with --seeds {failed.seed} --json):")
    for line in failed.story[-_SHOWN:]:
        print(f"  {line}")
    sys.stdout.flush()


def _until_different(simulation: Simulation, seeds: Iterable[int]) -> Iterable[SeedResult]:
    for seed in seeds:
        result = simulation.run(seed)
        yield result
        if result.problem is not None:
            return
