"""What a job says of itself: a frozen snapshot of rates, times, watermarks and rows."""

from dataclasses import asdict, dataclass
from typing import Any

from penstock.engine.accounting import TimeSpent
from penstock.engine.build import Build
from penstock.engine.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.instance import Instance
from penstock.engine.ledger import Ledger, read_ledger


@dataclass(frozen=True, slots=True)
class InstanceMetrics:
    """One task instance: where its time went and how far it is in event time (None: not known)."""

    task: str
    instance: int
    time: TimeSpent
    watermark_us: int | None
    waiting_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class JobMetrics:
    """A job at one moment; ``elapsed_ns`` since it started, ``source_rows`` read by all
    sources, ``state_bytes`` over all operators.
    """

    name: str
    elapsed_ns: int
    source_rows: int
    ledger: Ledger
    instances: tuple[InstanceMetrics, ...]
    state_bytes: int

    def __repr__(self) -> str:
        seconds = self.elapsed_ns / 1e9
        return f"<JobMetrics {self.name}: {self.source_rows:,} source rows in {seconds:.2f} s; as_dict() has the rest>"

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return asdict(self)


def read_metrics(name: str, build: Build, started_ns: int, now_ns: int) -> JobMetrics:
    """Read all counters of a job."""
    return JobMetrics(
        name=name,
        elapsed_ns=now_ns - started_ns,
        source_rows=sum(head.counters.rows_in for head in build.heads()),
        ledger=read_ledger(build),
        instances=tuple(_instance(instance, now_ns) for instance in build.instances),
        state_bytes=sum(store.bytes_used() for stores in build.stores.values() for store in stores),
    )


def _instance(instance: Instance, now_ns: int) -> InstanceMetrics:
    watermark_us = None
    waiting = 0
    if instance.gate is not None:
        watermark_us = instance.gate.watermark_us
        waiting = sum(item.channel.waiting_bytes for item in instance.gate.inputs)
    elif instance.head is not None:
        watermark_us = instance.head.watermark_us
    if watermark_us in (START_OF_TIME_US, END_OF_TIME_US):
        watermark_us = None
    return InstanceMetrics(instance.task, instance.index, instance.accounting.spent(now_ns), watermark_us, waiting)
