"""One run on real parts: measures what the job can take, then offers it rows at rates of that, and keeps what was seen.

Each run is a folder; one that has its ``run.json`` is finished and not done again.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from penstock.benchmarks.papers.real.application import attribute
from penstock.benchmarks.papers.real.injector import Orders, fill
from penstock.benchmarks.papers.real.schedule import Phase, TopicLoad
from penstock.benchmarks.papers.real.subject import SubjectOrders
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError

FINISHED = "run.json"
LEAD_S = 5.0
"""How long a job that reads already runs before the first phase."""

_START_S = 60.0
_MOST_S = 900.0


@dataclass(frozen=True, slots=True)
class RealCase:
    """What is run: an application, its topics, and loads as parts of its capacity with how long each lasts, seconds.

    ``topics``: by topic the ``module:function`` of its messages; all are offered the same rate, or so many times that
    (``rates``), unevenly by partition (``shares``). ``calibration_rows``: how many rows of each topic, or so many times
    that, its capacity is measured with. ``exact``: the ``module:function`` that makes plain data of the cluster and the
    topics when the run is over; empty for none. ``batch_rows`` as of `run`.
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
        tell(f"{folder.name}: measures what the job can take")
        alone = _capacity(case, broker.bootstrap, folder, cores, "alone")
        beside = alone.rows_per_s * _mean_load(case)
        filled = _capacity(case, broker.bootstrap, folder, cores, "before", beside)
        tell(f"{folder.name}: {filled.rows_per_s:.0f} rows/s of each topic fill its core")
        seen = _offered(case, broker, folder, cores, filled.rows_per_s)
        after = _capacity(case, broker.bootstrap, folder, cores, "after", beside)
        seen |= {"capacity_after": after.rows_per_s, "calibrated": [filled.last, after.last]}
    written = finished.with_suffix(".part")
    written.write_text(json.dumps(seen), encoding="utf-8")
    written.replace(finished)
    return finished


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
    rows = fill(kafka, loads, [case.calibration_rows * case.rate_of(topic) for topic in case.topics])
    own = replace(case, control={}, options={**case.options, "contracts": {}})
    orders = replace(_subject_orders(own, kafka, loads, folder / purpose, cores), is_bounded=True)
    notes = folder / f"{purpose}.jsonl"
    with ExitStack() as stack:
        if beside_rows_per_s:
            unread = _topics(case, kafka, f"{purpose}-unread", (Phase(beside_rows_per_s, _MOST_S),))
            to_inject = Orders(kafka, unread, time.monotonic_ns())
            stack.enter_context(_started("injector", to_inject.text(), folder / f"{purpose}-unread.jsonl"))
        _wait(stack.enter_context(_started("subject", orders.text(), notes)))
    last = _lines(notes)[-1]
    worked_s: float = sum(last["busy_ns"].values()) / 1e9
    return _Capacity(rows / sum(map(case.rate_of, case.topics)) / worked_s, last)


def _offered(case: RealCase, broker: LocalBroker, folder: Path, cores: CoreShares, capacity: float) -> dict[str, Any]:
    """Offer rows at the case's loads to the job while it runs, and return what was seen, as plain data."""
    phases = tuple(Phase(load * capacity, seconds) for load, seconds in case.loads)
    loads = _topics(case, broker.bootstrap, "paced", phases)
    orders = _subject_orders(case, broker.bootstrap, loads, folder / "job", cores)
    broker_cpu_s = _cpu_s(broker)
    with _started("subject", orders.text(), folder / "job.jsonl") as subject:
        _wait_until_it_reads(subject, folder / "job.jsonl")
        begin_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        to_inject = Orders(broker.bootstrap, loads, begin_ns)
        with _started("injector", to_inject.text(), folder / "injected.jsonl") as injector:
            _wait(injector)
        assert subject.stdin is not None
        subject.stdin.close()
        _wait(subject)
    first, *samples = _lines(folder / "job.jsonl")
    return {
        "case": asdict(case),
        "capacity": capacity,
        "phases": [asdict(phase) for phase in phases],
        "begin_ns": begin_ns,
        "job_begun_ns": first["begun_ns"],
        "queries": first["queries"],
        "broker_cpu_s": _cpu_s(broker) - broker_cpu_s,
        "injected": _lines(folder / "injected.jsonl"),
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
    )


@contextmanager
def _started(module: str, orders: str, notes: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process of this package with orders, whose stdin stays open; it is ended if the block fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"penstock.benchmarks.papers.real.{module}", str(notes)],
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(orders + "\n")
        process.stdin.flush()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _wait(process: "subprocess.Popen[str]") -> None:
    """Wait for a process that must not fail."""
    try:
        failed = process.wait(_MOST_S)
    except subprocess.TimeoutExpired:
        raise FatalError(f"a process of the run has not ended within {_MOST_S:g} s") from None
    if failed:
        raise FatalError("a process of the run failed; its own words stand above")


def _wait_until_it_reads(process: "subprocess.Popen[str]", notes: Path) -> None:
    """Wait until a job has readers: it says which sources it has.

    Raises:
        FatalError: it failed, or does not come so far.
    """
    until_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until_s:
        if notes.exists() and any(line.get("read") for line in _lines(notes)):
            return
        time.sleep(0.1)
    raise FatalError(f"the job of the run has not begun within {_START_S:g} s; its own words stand above")


def _cpu_s(broker: LocalBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def _lines(path: Path) -> list[dict[str, Any]]:
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
