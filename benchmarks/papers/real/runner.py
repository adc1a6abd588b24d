"""One run on real parts: measures what the job can take, then offers it rows at rates of that, and keeps what was seen.

Each run is a folder; one that has its ``run.json``, with the same case in it, is finished and not done again.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from penstock.benchmarks.papers.real.application import attribute
from penstock.benchmarks.papers.real.capacity import at_pace, of_waiting_rows
from penstock.benchmarks.papers.real.case import CoreShares, RealCase
from penstock.benchmarks.papers.real.injector import Orders
from penstock.benchmarks.papers.real.job_process import (
    LEAD_S,
    fill_first,
    make_topics,
    subject_orders,
    wait_until_it_reads,
)
from penstock.benchmarks.papers.real.kept_case import FINISHED, kept_run
from penstock.benchmarks.papers.real.schedule import Phase
from penstock.benchmarks.papers.real.started import end, is_so_within, lines, started, wait
from penstock.dev.kafka_broker import LocalBroker

_KNOWN_S = 3.0
"""After so long a job knows what its topics have."""


def run_case(case: RealCase, folder: Path, tell: Callable[[str], None] = lambda text: None) -> Path:
    """Run a case, unless its folder has it already; return the file of what was seen.

    Raises:
        FatalError: a process of the run failed.
        BrokerError: no broker can be started here.
        OptionError: the folder has a run of another case.
    """
    finished = folder / FINISHED
    if kept_run(case, folder) is not None:
        tell(f"{folder.name} is finished already")
        return finished
    # What is left of a run that was cut off is of another one.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cores = CoreShares.here()
    with ExitStack() as stack:
        temporary = stack.enter_context(TemporaryDirectory(prefix="penstock-real-"))
        # The broker inherits where this process may run.
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores.others)
        stack.callback(os.sched_setaffinity, 0, before)
        broker = stack.enter_context(LocalBroker(temporary, large=True))
        if case.capacity:
            seen = _offered(case, broker, folder, cores, case.capacity)
            seen |= {"capacity_after": case.capacity}
        else:
            seen = _measured(case, broker, folder, cores, tell)
    written = finished.with_suffix(".part")
    written.write_text(json.dumps(seen), encoding="utf-8")
    written.replace(finished)
    return finished


def _measured(
    case: RealCase, broker: LocalBroker, folder: Path, cores: CoreShares, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Return what was seen of a run whose capacity is measured before and after it."""
    tell(f"{folder.name}: measures what the job can take")
    alone = of_waiting_rows(case, broker.bootstrap, folder, cores)
    before = at_pace(case, broker.bootstrap, folder, cores, "before", alone.rows_per_s)
    tell(f"{folder.name}: {before.rows_per_s:.0f} rows/s of each topic fill its core")
    seen = _offered(case, broker, folder, cores, before.rows_per_s)
    after = at_pace(case, broker.bootstrap, folder, cores, "after", before.rows_per_s)
    return seen | {"capacity_after": after.rows_per_s, "calibrated": [before.counted, after.counted]}


def _offered(case: RealCase, broker: LocalBroker, folder: Path, cores: CoreShares, capacity: float) -> dict[str, Any]:
    """Offer rows at the case's loads to the job while it runs, and return what was seen, as plain data."""
    phases = tuple(Phase(load * capacity, seconds) for load, seconds in case.loads)
    loads = make_topics(case, broker.bootstrap, "paced", phases)
    orders = subject_orders(case, broker.bootstrap, loads, folder / "job", cores)
    broker_cpu_s = _cpu_s(broker)
    with started("subject", orders.text(), folder / "job.jsonl") as subject:
        wait_until_it_reads(subject, folder / "job.jsonl")
        first = fill_first(case, broker.bootstrap, loads, subject, folder / "job.jsonl") if case.first else 0
        to_inject = Orders(broker.bootstrap, loads, LEAD_S)
        with started("injector", to_inject.text(), folder / "injected.jsonl") as injector:
            wait(injector, LEAD_S + sum(phase.seconds for phase in phases))
        if case.catch_up_s:
            time.sleep(_KNOWN_S)
            is_so_within(subject, folder / "job.jsonl", case.catch_up_s, _has_all)
        end(subject)
    begun, *samples = lines(folder / "job.jsonl")
    injected = lines(folder / "injected.jsonl")
    return {
        "case": asdict(case),
        "capacity": capacity,
        "phases": [asdict(phase) for phase in phases],
        "begin_ns": injected[0]["begin_ns"],
        "job_begun_ns": begun["begun_ns"],
        "queries": begun["queries"],
        "broker_cpu_s": _cpu_s(broker) - broker_cpu_s,
        "first": first,
        "injected": injected,
        "samples": samples,
        "exact": attribute(case.exact)(broker.bootstrap, [load.topic for load in loads]) if case.exact else None,
    }


def _has_all(line: Mapping[str, Any]) -> bool:
    """Return whether nothing waits by a sample of the job, neither to be read nor between instances."""
    waiting = line.get("waiting", {}).values()
    return bool(waiting) and all(count == 0 for count in waiting) and not line["between"]


def _cpu_s(broker: LocalBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)
