"""What the job of a case can take: rows/s that keep its loop at work while more rows wait and none is shed.

First of rows that all wait, as nothing else is known yet; then of rows that come at their pace, faster than that. What
comes at its pace costs more: the broker and the injector take caches and memory from the job, and it gets messages a
few at a time.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.real.case import CoreShares, RealCase
from penstock.benchmarks.papers.real.injector import Orders, fill
from penstock.benchmarks.papers.real.job_process import (
    LEAD_S,
    fill_first,
    has_taken,
    make_topics,
    subject_orders,
    wait_until_it_reads,
)
from penstock.benchmarks.papers.real.schedule import Phase, TopicLoad
from penstock.benchmarks.papers.real.started import MOST_S, end, is_so_within, lines, started, wait
from penstock.model.errors import FatalError

_OVERLOAD = 1.5
"""Rows come this many times faster than a job takes those that wait, or as in its case's worst phase."""

_FULL_AFTER_S = 3.0
"""After so long rows wait, and the job knows how many."""

_LEAST_S = 6.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Rows/s of each topic, or of one of rate 1, and what the job counted meanwhile: rows and busy times."""

    rows_per_s: float
    counted: Mapping[str, Mapping[str, int]]


def of_waiting_rows(case: RealCase, kafka: str, folder: Path, cores: CoreShares) -> Capacity:
    """Return what a job takes of rows that all wait.

    Raises:
        FatalError: it does not take them.
    """
    loads = make_topics(case, kafka, "alone", ())
    wanted = [case.calibration_rows * case.rate_of(topic) for topic in case.topics]
    orders = subject_orders(_uncontrolled(case), kafka, loads, folder / "alone", cores)
    notes = folder / "alone.jsonl"
    if case.first:
        with started("subject", orders.text(), notes) as subject:
            before = _after_first(case, kafka, loads, subject, notes, wanted)
    else:
        fill(kafka, loads, wanted)
        before = {}
        with started("subject", replace(orders, is_bounded=True).text(), notes) as subject:
            wait(subject)
    begun, *_, last = lines(notes)
    return _between(_source_rates(case, loads, begun), before, last)


def at_pace(case: RealCase, kafka: str, folder: Path, cores: CoreShares, purpose: str, guess: float) -> Capacity:
    """Return what a job takes of rows that come faster than it can; ``guess``: rows/s of each topic that it can take.

    Raises:
        FatalError: no rows wait, however fast they come, or the job says nothing of itself meanwhile.
    """
    for number in range(1, 4):
        measured = _at_rate(case, kafka, folder, cores, f"{purpose}-{number}", guess)
        if measured is not None:
            return measured
        guess *= _OVERLOAD
    raise FatalError(f"no rows of {case.name} wait at {guess * _peak(case):.0f} rows/s of each topic")


def _at_rate(
    case: RealCase, kafka: str, folder: Path, cores: CoreShares, purpose: str, guess: float
) -> Capacity | None:
    """Return what the job takes of rows that come so much faster than guessed; none if they do not wait."""
    counted_s = max(_LEAST_S, case.calibration_rows / guess)
    phase = Phase(guess * _peak(case), _FULL_AFTER_S + counted_s)
    loads = make_topics(case, kafka, purpose, (phase,))
    orders = subject_orders(_uncontrolled(case), kafka, loads, folder / purpose, cores)
    notes = folder / f"{purpose}.jsonl"
    with started("subject", orders.text(), notes) as subject:
        wait_until_it_reads(subject, notes)
        if case.first:
            fill_first(case, kafka, loads, subject, notes)
        to_inject, injected = Orders(kafka, loads, LEAD_S), folder / f"{purpose}-injected.jsonl"
        with started("injector", to_inject.text(), injected) as injector:
            wait(injector, LEAD_S + phase.seconds)
        end(subject)
    begin_ns = lines(injected)[0]["begin_ns"]
    full_ns, end_ns = (begin_ns + int(at_s * 1e9) for at_s in (_FULL_AFTER_S, phase.seconds))
    begun, *said = lines(notes)
    samples = [each for each in said if each["read"] and full_ns <= each["at_ns"] <= end_ns]
    if len(samples) < 2:
        raise FatalError(f"the job of {case.name} was not heard of for {counted_s:g} s while its capacity was measured")
    first, last = samples[0], samples[-1]
    # A source that has not said yet how much waits says none.
    is_full = any(last["waiting"].values()) or last["between"] > 0
    return _between(_source_rates(case, loads, begun), first, last) if is_full else None


def _peak(case: RealCase) -> float:
    return max(_OVERLOAD, *(load for load, _ in case.loads))


def _uncontrolled(case: RealCase) -> RealCase:
    return replace(case, control={}, options={**case.options, "contracts": {}}, restarts=False, is_watched=False)


def _source_rates(case: RealCase, loads: Sequence[TopicLoad], begun: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times the rate each source of a job reads, by what the job said when it began."""
    rates = {load.topic: case.rate_of(topic) for topic, load in zip(case.topics, loads, strict=True)}
    return {source: sum(rates[topic] for topic in topics) for source, topics in begun["sources"].items()}


def _between(rates: Mapping[str, float], before: Mapping[str, Any], after: Mapping[str, Any]) -> Capacity:
    """Return what a job takes by two samples of it between which rows wait; ``rates``: those of its sources."""
    counted = {
        name: {key: count - before.get(name, {}).get(key, 0) for key, count in after[name].items()}
        for name in ("read", "taken", "busy_ns")
    }
    return Capacity(1e9 / unit_ns(rates, counted["read"], counted["busy_ns"]), counted)


def unit_ns(rates: Mapping[str, float], read: Mapping[str, int], busy_ns: Mapping[str, float]) -> float:
    """Return how long a job works at a row of each source, or at as many as its rate says.

    A job that is full does not read its sources at their rates, so rows of each count at their own price. Tasks of no
    source have a price for the rows of all.

    Raises:
        FatalError: nothing of a source was read.
    """
    unread = [source for source in rates if not read.get(source)]
    if unread:
        raise FatalError(f"nothing of {', '.join(unread)} was read while the capacity was measured")
    alone, shared = 0.0, 0.0
    for task, busy in busy_ns.items():
        own = [source for source in rates if source in task.split(" -> ")]
        if own:
            alone += busy * sum(rates[source] for source in own) / sum(read[source] for source in own)
        else:
            shared += busy
    return alone + shared * sum(rates.values()) / sum(read.values())


def _after_first(
    case: RealCase,
    kafka: str,
    loads: tuple[TopicLoad, ...],
    subject: "subprocess.Popen[str]",
    notes: Path,
    wanted: Sequence[float],
) -> Mapping[str, Any]:
    """Let a job take what comes first, then so many rows, and end; return what it said before those.

    Raises:
        FatalError: it does not take them.
    """
    wait_until_it_reads(subject, notes)
    first = fill_first(case, kafka, loads, subject, notes)
    before = lines(notes)[-1]
    rows = fill(kafka, loads, wanted)
    if not is_so_within(subject, notes, MOST_S, partial(has_taken, first + rows)):
        raise FatalError("the job of the run does not take the rows that its capacity is measured with")
    end(subject)
    return before
