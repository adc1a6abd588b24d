"""The process of the job that is measured: runs it, and notes what it says of itself, with the time and its CPU.

``python -m penstock.benchmarks.papers.real.subject NOTES``, its orders as a line of JSON on stdin; the job is stopped
when that is closed. The first line of NOTES says when the job was started, by the monotonic clock, where its queries
are counted, and which topics its sources read; a line follows for each sample.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.control import Control
from penstock.model.job_graph import SourceSpec

SAMPLE_S = 0.25
JOB = "subject"
SAVEPOINT = "moved"


@dataclass(frozen=True, slots=True)
class SubjectOrders:
    """What to run, and how.

    ``application``: ``module:function`` (`application.attribute`); ``options`` are its own. ``control`` are arguments
    of `Control`, empty for none. ``executor``: ``embedded``, or ``processes`` with ``task_managers``. ``cores``: those
    that the job may use. ``is_bounded``: it ends when it has read what is there. ``batch_rows`` as of `run`, ``start``
    are more options of that; with ``has_checkpoints`` they lie in the folder. ``restarts``: what its scaler recommends
    is done by a savepoint, a stop, and a start with so many instances and task managers. ``is_watched``: there is an
    action log where nobody controls it, too.
    """

    application: str
    kafka: str
    topics: tuple[str, ...]
    folder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    executor: str = "embedded"
    task_managers: int = 1
    cores: tuple[int, ...] = ()
    is_bounded: bool = False
    batch_rows: int = 128
    start: Mapping[str, Any] = field(default_factory=dict)
    has_checkpoints: bool = False
    restarts: bool = False
    is_watched: bool = False

    def text(self) -> str:
        """Return the orders as JSON."""
        return json.dumps(asdict(self))


def run(orders: SubjectOrders, notes: Path, stopped: threading.Event) -> None:
    """Run the job, and note samples until it ends or is stopped."""
    if orders.cores:
        os.sched_setaffinity(0, orders.cores)
    made, options = _made(orders), _options(orders)
    own = psutil.Process()
    with notes.open("w", encoding="utf-8", buffering=1) as lines:
        counted = {query: asdict(where) for query, where in made.queries.items()}
        begun_ns = time.monotonic_ns()
        handle = made.job.start(JOB, **options)
        begun = {"begun_ns": begun_ns, "queries": counted, "sources": _topics(made)}
        lines.write(json.dumps(begun) + "\n")
        while handle.running and not stopped.wait(SAMPLE_S):
            metrics = handle.metrics()
            lines.write(json.dumps(_sample(metrics, own)) + "\n")
            if orders.restarts and (wanted := _wanted(metrics)) > options.get("parallelism", 1):
                options |= {"parallelism": wanted, "task_managers": wanted, "restore": SAVEPOINT}
                handle.stop(savepoint=SAVEPOINT)
                handle = _made(orders).job.start(JOB, **options)
        metrics = handle.wait() if orders.is_bounded else handle.stop(drain=True)
        lines.write(json.dumps({**_sample(metrics, own), "is_last": True}) + "\n")


def _topics(made: Application) -> dict[str, tuple[str, ...]]:
    """Return the topics of each source of a job."""
    specs = {node.name: node.spec for node in made.job.graph.operators.values()}
    return {
        name: spec.source.topics.names
        for name, spec in specs.items()
        if isinstance(spec, SourceSpec) and isinstance(spec.source, KafkaSource)
    }


def _made(orders: SubjectOrders) -> Application:
    until: Literal["latest"] | None = "latest" if orders.is_bounded else None
    setting = Setting(orders.kafka, tuple(orders.topics), Path(orders.folder), until, orders.options)
    made: Application = attribute(orders.application)(setting)
    return made


def _options(orders: SubjectOrders) -> dict[str, Any]:
    folder = Path(orders.folder)
    options: dict[str, Any] = {"directory": folder / "job", "batch_rows": orders.batch_rows, **orders.start}
    if orders.executor == "processes":
        options |= {"executor": "processes", "task_managers": orders.task_managers}
    if orders.has_checkpoints:
        options |= {"checkpoint_dir": folder / "checkpoints"}
    if orders.control:
        options |= {"control": Control(**orders.control)}
    if orders.control or orders.is_watched:
        options |= {"action_log": folder / "actions.jsonl"}
    return options


def _wanted(metrics: JobMetrics) -> int:
    """Return the most instances that a scaler wants of a task, 0: it wants no others."""
    wanted = () if metrics.scaling is None else metrics.scaling.wanted
    return max((after for _, _, after in wanted), default=0)


def _sample(metrics: JobMetrics, own: psutil.Process) -> dict[str, Any]:
    cpu = own.cpu_times()
    busy_ns = Counter[str]()
    for each in metrics.instances:
        busy_ns[each.task] += each.time.busy_ns
    shedding = metrics.shedding
    sample: dict[str, Any] = {
        "at_ns": time.monotonic_ns(),
        "cpu_s": cpu.user + cpu.system,
        "read": {source.source: source.rows for source in metrics.sources},
        "waiting": {source.source: source.lag_messages for source in metrics.sources},
        "taken": {line.operator: line.rows_in for line in metrics.ledger.operators},
        "shed": metrics.ledger.shed,
        "between": sum(line.sent - line.received for line in metrics.ledger.edges),
        "busy_ns": busy_ns,
        "state_bytes": metrics.state_bytes,
        "instances": Counter(each.task for each in metrics.instances),
    }
    if metrics.scaling is not None:
        sample["scaling"] = metrics.scaling.sentence()
    if shedding is not None:
        sample |= {
            "keep": dict(shedding.sources) | {f"{a} > {b}": rate for a, b, rate in shedding.branches},
            "desired": {each.query: each.desired for each in shedding.queries},
            "said": {each.query: each.current for each in shedding.queries},
            "reason": shedding.reason,
            "infeasible": shedding.infeasible,
            "late_ticks": shedding.late_ticks,
            "latest_ms": shedding.latest_ms,
            "checks": shedding.checks,
            "checks_ms": shedding.checks_ms,
            "longest_check_ms": shedding.longest_check_ms,
        }
    return sample


def main(argv: Sequence[str]) -> int:
    """Carry out the orders on stdin."""
    orders = SubjectOrders(**json.loads(sys.stdin.readline()))
    stopped = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=listen, name="orders", daemon=True).start()
    run(orders, Path(argv[0]), stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
