"""One run on real parts: measures what the job can take, then offers it rows at rates of that, and keeps what was seen.

Each run is a folder; one that has its ``run.json`` is finished and not done again.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from penstock.benchmarks.papers.real.application import attribute
from penstock.benchmarks.papers.real.case import CoreShares, RealCase
from penstock.benchmarks.papers.real.injector import Orders, fill
from penstock.benchmarks.papers.real.schedule import Phase, TopicLoad
from penstock.benchmarks.papers.real.started import MOST_S, is_so_within, lines, started, wait
from penstock.benchmarks.papers.real.subject import SubjectOrders
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError

FINISHED = "run.json"
LEAD_S = 5.0
"""How long an injector that can write waits before the first phase; the job reads already."""

_START_S = 240.0
_KNOWN_S = 3.0
"""After so long a job knows what its topics have."""


def run_case(case: RealCase, folder: Path, tell: Callable[[str], None] = lambda text: None) -> Path:
    """Run a case, unless its folder has it already; return the file of what was seen.

    Raises:
        FatalError: a process of the run failed.
        BrokerError: no broker can be started here.
    """
    finished = folder / FINISHED
    if finished.exists():
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
    alone = _capacity(case, broker.bootstrap, folder, cores, "alone")
    beside = alone.rows_per_s * _mean_load(case)
    filled = _capacity(case, broker.bootstrap, folder, cores, "before", beside)
    tell(f"{folder.name}: {filled.rows_per_s:.0f} rows/s of each topic fill its core")
    seen = _offered(case, broker, folder, cores, filled.rows_per_s)
    after = _capacity(case, broker.bootstrap, folder, cores, "after", beside)
    return seen | {"capacity_after": after.rows_per_s, "calibrated": [filled.last, after.last]}


def _mean_load(case: RealCase) -> float:
    return sum(load * seconds for load, seconds in case.loads) / sum(seconds for _, seconds in case.loads)


@dataclass(frozen=True, slots=True)
class _Capacity:
    """What a job can take, and its last sample of itself when that was measured."""

    rows_per_s: float
    last: Mapping[str, Any]


def _capacity(
    case: RealCase, kafka: str, folder: Path, cores: CoreShares, purpose: str, beside_rows_per_s: float = 0.0
) -> "_Capacity":
    """Return the rows/s of each topic, or of one of rate 1, that fill the job's loop, while more wait, none shed.

    They are counted over the time that the loop worked, which is the clock's while rows wait. So many rows/s are
    injected beside it into topics that nobody reads: what the broker and the injector take of caches and of memory, the
    job lacks.
    """
    loads = _topics(case, kafka, purpose, ())
    wanted = [case.calibration_rows * case.rate_of(topic) for topic in case.topics]
    own = replace(case, control={}, options={**case.options, "contracts": {}}, restarts=False, is_watched=False)
    orders = _subject_orders(own, kafka, loads, folder / purpose, cores)
    notes = folder / f"{purpose}.jsonl"
    with ExitStack() as stack:
        if beside_rows_per_s:
            unread = _topics(case, kafka, f"{purpose}-unread", (Phase(beside_rows_per_s, MOST_S),))
            to_inject = Orders(kafka, unread, 0.0)
            stack.enter_context(started("injector", to_inject.text(), folder / f"{purpose}-unread.jsonl"))
        if case.first:
            subject = stack.enter_context(started("subject", orders.text(), notes))
            rows, before = _after_first(case, kafka, loads, subject, notes, wanted)
        else:
            rows, before = fill(kafka, loads, wanted), None
            subject = stack.enter_context(started("subject", replace(orders, is_bounded=True).text(), notes))
        wait(subject)
    last = lines(notes)[-1]
    worked_s = _busy_s(last) - (0.0 if before is None else _busy_s(before))
    return _Capacity(rows / sum(map(case.rate_of, case.topics)) / worked_s, last)


def _after_first(
    case: RealCase,
    kafka: str,
    loads: tuple[TopicLoad, ...],
    subject: "subprocess.Popen[str]",
    notes: Path,
    wanted: Sequence[float],
) -> tuple[int, Mapping[str, Any]]:
    """Let a job take what comes first, then so many rows, and end; return how many those are, and what it said before.

    Raises:
        FatalError: it does not take them.
    """
    _wait_until_it_reads(subject, notes)
    first = _fill_first(case, kafka, loads, subject, notes)
    before = lines(notes)[-1]
    rows = fill(kafka, loads, wanted)
    if not is_so_within(subject, notes, MOST_S, partial(_has_taken, first + rows)):
        raise FatalError("the job of the run does not take the rows that its capacity is measured with")
    assert subject.stdin is not None
    subject.stdin.close()
    return rows, before


def _busy_s(sample: Mapping[str, Any]) -> float:
    return float(sum(sample["busy_ns"].values())) / 1e9


def _offered(case: RealCase, broker: LocalBroker, folder: Path, cores: CoreShares, capacity: float) -> dict[str, Any]:
    """Offer rows at the case's loads to the job while it runs, and return what was seen, as plain data."""
    phases = tuple(Phase(load * capacity, seconds) for load, seconds in case.loads)
    loads = _topics(case, broker.bootstrap, "paced", phases)
    orders = _subject_orders(case, broker.bootstrap, loads, folder / "job", cores)
    broker_cpu_s = _cpu_s(broker)
    with started("subject", orders.text(), folder / "job.jsonl") as subject:
        _wait_until_it_reads(subject, folder / "job.jsonl")
        first = _fill_first(case, broker.bootstrap, loads, subject, folder / "job.jsonl") if case.first else 0
        to_inject = Orders(broker.bootstrap, loads, LEAD_S)
        with started("injector", to_inject.text(), folder / "injected.jsonl") as injector:
            wait(injector, LEAD_S + sum(phase.seconds for phase in phases))
        if case.catch_up_s:
            time.sleep(_KNOWN_S)
            is_so_within(subject, folder / "job.jsonl", case.catch_up_s, _has_all)
        assert subject.stdin is not None
        subject.stdin.close()
        wait(subject)
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


def _topics(case: RealCase, kafka: str, purpose: str, phases: tuple[Phase, ...]) -> tuple[TopicLoad, ...]:
    """Make the topics of a purpose, and return what is offered to them."""
    loads = tuple(
        TopicLoad(
            f"{topic}-{purpose}",
            case.shares,
            messages,
            tuple(Phase(phase.rows_per_s * case.rate_of(topic), phase.seconds) for phase in phases),
        )
        for topic, messages in case.topics.items()
    )
    for load in loads:
        create_topic(KafkaSettings(kafka), load.topic, len(load.shares))
    return loads


def _subject_orders(
    case: RealCase, kafka: str, loads: tuple[TopicLoad, ...], folder: Path, cores: CoreShares
) -> SubjectOrders:
    folder.mkdir(exist_ok=True)
    embedded = case.executor == "embedded"
    return SubjectOrders(
        case.application,
        kafka,
        tuple(load.topic for load in loads),
        str(folder),
        case.options,
        case.control,
        case.executor,
        case.task_managers,
        cores.job if embedded else tuple(sorted({*cores.job, *cores.others})),
        batch_rows=case.batch_rows,
        start=case.start,
        has_checkpoints=case.has_checkpoints,
        restarts=case.restarts,
        is_watched=case.is_watched,
    )


def _wait_until_it_reads(process: "subprocess.Popen[str]", notes: Path) -> None:
    """Wait until a job has readers: it says which sources it has.

    Raises:
        FatalError: it failed, or does not come so far.
    """
    if not is_so_within(process, notes, _START_S, lambda line: bool(line.get("read"))):
        raise FatalError(f"the job of the run has not begun within {_START_S:g} s; its own words stand above")


def _fill_first(
    case: RealCase, kafka: str, loads: tuple[TopicLoad, ...], subject: "subprocess.Popen[str]", notes: Path
) -> int:
    """Write what topics have before the first phase, wait until the job has taken it, and return how much it is.

    Raises:
        FatalError: the job does not take it.
    """
    firsts = tuple(replace(load, messages=case.first[topic]) for topic, load in zip(case.topics, loads, strict=True))
    rows = fill(kafka, firsts, [len(attribute(load.messages)()) for load in firsts])
    if not is_so_within(subject, notes, MOST_S, partial(_has_taken, rows)):
        raise FatalError("the job of the run does not take the rows that come first")
    return rows


def _has_taken(rows: int, line: Mapping[str, Any]) -> bool:
    """Return whether by a sample of the job so many rows were read, and none is between instances."""
    return sum(line.get("read", {}).values()) >= rows and not line["between"]


def _has_all(line: Mapping[str, Any]) -> bool:
    """Return whether nothing waits by a sample of the job, neither to be read nor between instances."""
    waiting = line.get("waiting", {}).values()
    return bool(waiting) and all(count == 0 for count in waiting) and not line["between"]


def _cpu_s(broker: LocalBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)
