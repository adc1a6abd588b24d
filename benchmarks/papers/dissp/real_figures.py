"""The figures of a run of many queries on real parts, all but the shedder's time by what was counted outside the job.

They are those of its last phase.
"""

from itertools import pairwise

import numpy as np

from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.model.columns import Floats
from penstock.model.sic import SIC_WINDOW_S
from penstock.shedding.sic import jain_index

CHECK_S = 0.25


def n_sic(run: SeenRun, begin_s: float, end_s: float) -> Floats:
    """Return nSIC by query: rows that went into it over rows that the broker took for it.

    All rows of its one source are worth the same.
    """
    return np.minimum(1.0, [run.accuracy(query, begin_s, end_s) for query in run.queries])


def of_phase(run: SeenRun) -> Floats:
    """Return nSIC by query in the whole phase."""
    return n_sic(run, *run.bounds[-1])


def windows(run: SeenRun) -> list[tuple[float, float]]:
    """Return the source time windows of the phase, one behind the other; one shorter than that if it is."""
    begin, end = run.bounds[-1]
    count = max(1, int((end - begin) / SIC_WINDOW_S))
    return [(begin + (end - begin) * part / count, begin + (end - begin) * (part + 1) / count) for part in range(count)]


def least_jain(run: SeenRun) -> float:
    """Return Jain's index in the window in which it is least."""
    return min(jain_index(n_sic(run, *window)) for window in windows(run))


def offered_load(run: SeenRun) -> float:
    """Return the work that was offered over what a loop can do in that time."""
    begin, end = run.bounds[-1]
    offered = [
        run.offered(where["topics"]).between(begin, end) * run.row_s(query) for query, where in run.queries.items()
    ]
    return sum(offered) / (end - begin)


def used(run: SeenRun) -> float:
    """Return the work that was done over what a loop can do in that time.

    A row is as much work as it was when the capacity was measured.
    """
    begin, end = run.bounds[-1]
    done = [run.taken(query).between(begin, end) * run.row_s(query) for query in run.queries]
    return sum(done) / (end - begin)


def lag_s(run: SeenRun) -> Floats:
    """Return the lag in seconds of input."""
    return run.input_s()[run.within(*run.bounds[-1])]


def check_ms(run: SeenRun) -> list[float]:
    """Return the CPU of a check, ms, as a mean from one figure of the job's to the next."""
    said = _checks(run)
    return [(ms - before_ms) / (count - before) for (_, before, before_ms), (_, count, ms) in pairwise(said)]


def interval_ms(run: SeenRun) -> float:
    """Return the CPU of all checks in a shedding interval of 250 ms, ms, as a mean over the phase.

    The job says a figure once a second, so nothing shorter can be told apart.
    """
    said = _checks(run)
    (begin, _, before_ms), (end, _, ms) = said[0], said[-1]
    return CHECK_S * (ms - before_ms) / (end - begin)


def longest_check_ms(run: SeenRun) -> float:
    """Return the CPU of the longest check of the run."""
    return max(float(sample.get("longest_check_ms", 0.0)) for sample in run.samples)


def _checks(run: SeenRun) -> list[tuple[float, int, float]]:
    """Return the times at which the job has said a new figure of its checks: their number, and their CPU in all."""
    said: list[tuple[float, int, float]] = []
    for row in run.within(*run.bounds[-1]):
        sample = run.samples[row]
        count = int(sample.get("checks", 0))
        if count and (not said or count > said[-1][1]):
            said.append((float(run.times_s[row]), count, float(sample["checks_ms"])))
    return said
