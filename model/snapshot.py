"""The metric contract: the figures of a cluster for controllers, frozen and in columns (docs/design/controllers.md 1).

Counts and times are those of the window that ended at ``time_s``. Rows refer to one another by row number: the task of
an instance is a row of the tasks. `engine.control.cluster_snapshot` fills it, the simulated cluster does, and logs
keep it.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from penstock.model.columns import Bools, Columns, Floats, Ints, Names

SCHEMA = 4
"""Grows with every change of a column; a log of another one is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class ApplicationColumns(Columns):
    """Jobs and their allocations: ``cores``, ``memory_bytes`` (of which ``heap_bytes``) and ``threads``.

    ``heap_used_bytes`` is the peak of live heap, ``heap_committed_bytes`` of claimed heap, ``resident_bytes`` of the
    processes; ``throttled_ns`` time without the core because the allocation was used up. ``working_ns``: time in which
    threads had rows, or waited for answers to calls; not measured: that of the instances. Of an application of another
    head only the allocation is known.
    """

    name: Names
    cores: Floats | None = None
    memory_bytes: Floats | None = None
    heap_bytes: Floats | None = None
    threads: Floats | None = None
    heap_used_bytes: Floats | None = None
    heap_committed_bytes: Floats | None = None
    resident_bytes: Floats | None = None
    gc_ns: Floats | None = None
    gc_count: Floats | None = None
    throttled_ns: Floats | None = None
    cpu_ns: Floats | None = None
    out_of_memory_kills: Floats | None = None
    disk_io_bytes: Floats | None = None
    working_ns: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TaskColumns(Columns):
    """Tasks. ``is_source`` and ``is_sink``: it has no task above, or below. ``memory_level`` counts if ``is_stateful``.

    ``target_rate``: rate (rows/s) that a source must read, set externally; not measured: its input rate counts.
    """

    name: Names
    application: Ints
    is_source: Bools
    is_sink: Bools
    is_stateful: Bools
    is_keyed: Bools
    key_groups: Ints
    memory_level: Ints
    target_rate: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EdgeColumns(Columns):
    """Edges between tasks. ``is_free``: rows may go to any instance of the consumer (rebalance).

    ``is_forward``: all rows of an instance go to the one of the same number; not known: they go elsewhere, too.
    """

    producer: Ints
    consumer: Ints
    is_free: Bools
    row_bytes: Floats | None = None
    is_forward: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class QueryColumns(Columns):
    """Queries, by their sink's task. ``priority``: larger is more important; ``minimum_accuracy`` in [0, 1]."""

    name: Names
    task: Ints
    priority: Floats
    minimum_accuracy: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MachineColumns(Columns):
    """Machines on which instances may run. ``cpu_percent``: of all processes, foreign ones too, 100 for a core.

    ``rest_percent`` of the time its loop rests, as it has used up the cores that it may use.
    ``network_bytes`` by purpose; ``network_limit_bytes`` is what the link carries in a second. ``heartbeat_age_s``
    since its last heartbeat: a lost machine stays a row while instances ran on it.
    """

    name: Names
    cores: Floats
    cpu_percent: Floats | None = None
    resident_bytes: Floats | None = None
    memory_limit_bytes: Floats | None = None
    out_of_memory_kills: Floats | None = None
    disk_bytes: Floats | None = None
    network_limit_bytes: Floats | None = None
    network_data_bytes: Floats | None = None
    network_heartbeat_bytes: Floats | None = None
    network_checkpoint_bytes: Floats | None = None
    network_other_bytes: Floats | None = None
    heartbeat_age_s: Floats | None = None
    rest_percent: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InstanceColumns(Columns):
    """Task instances. ``machine`` is where it runs, or ran if not ``is_running``; ``number`` is its own in the task.

    ``records_in``: rows taken, after shedding. Busy, remote wait, core wait, input wait and output wait add up to the
    window; ``steps`` are the times that it began to be busy. ``latency_ms``: queue and service of a row, mean,
    not measured where none was there. ``get_p90_ms`` of accesses to state. ``managed_bytes``: the budget of its state.
    ``age_s`` since it started, not measured before its first start; ``settled_s`` since an action last touched it.
    """

    task: Ints
    number: Ints
    machine: Ints
    is_running: Bools
    records_in: Floats | None = None
    busy_ns: Floats | None = None
    remote_wait_ns: Floats | None = None
    core_wait_ns: Floats | None = None
    input_wait_ns: Floats | None = None
    output_wait_ns: Floats | None = None
    cpu_ns: Floats | None = None
    steps: Floats | None = None
    queue_rows: Floats | None = None
    latency_ms: Floats | None = None
    age_s: Floats | None = None
    settled_s: Floats | None = None
    cache_hits: Floats | None = None
    cache_misses: Floats | None = None
    get_ms: Floats | None = None
    get_p90_ms: Floats | None = None
    put_ms: Floats | None = None
    flush_stall_ns: Floats | None = None
    state_bytes: Floats | None = None
    managed_bytes: Floats | None = None
    emit_latency_ms: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OutputColumns(Columns):
    """Rows that an instance sent into an edge: ``records_out`` before its shedder, of which ``dropped``."""

    edge: Ints
    instance: Ints
    records_out: Floats | None = None
    dropped: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InputColumns(Columns):
    """Rows that an edge offered to an instance, before its producers' shedders."""

    edge: Ints
    instance: Ints
    offered: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PartitionColumns(Columns):
    """Partitions of sources' logs, and the instance that reads each.

    Rows: ``appended`` and ``consumed`` (fetched, before the source's shedder), ``end_offset`` and ``position`` at the
    end of the window; ``lag_max`` the largest distance in it, by the reader's own metrics.
    """

    instance: Ints
    appended: Floats | None = None
    consumed: Floats | None = None
    end_offset: Floats | None = None
    position: Floats | None = None
    lag_max: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BucketColumns(Columns):
    """Buckets (key groups) of keyed tasks: the owner of each, its rows, and its state."""

    task: Ints
    bucket: Ints
    instance: Ints
    records_in: Floats | None = None
    state_bytes: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ServiceColumns(Columns):
    """Remote services that applications call. ``latency_ms`` is the mean."""

    name: Names
    application: Ints
    latency_ms: Floats | None = None
    calls: Floats | None = None
    errors: Floats | None = None
    retries: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BufferColumns(Columns):
    """Batches that wait at a machine for a query: ``sic`` is its share of the query's source information."""

    machine: Ints
    query: Ints
    rows: Floats | None = None
    batches: Floats | None = None
    sic: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReuseColumns(Columns):
    """Sampled accesses to a task's state by how far back the key was last used, scaled up to all accesses.

    ``distance_bytes``: upper bound of the bytes of the distinct keys used since, itself included: the cache size of an
    instance at which the access hits. Not measured: the key's first access, which misses every cache.
    """

    task: Ints
    distance_bytes: Floats | None = None
    accesses: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AffinityColumns(Columns):
    """Constraints on the machine of a waiting instance.

    ``is_preferred``: the preferred machine. ``is_reserved``: a controller keeps room for it there; for one that runs it
    is room for what it has, which is to go there. ``is_flagged``: it was stopped there deliberately, and must not
    return.
    """

    instance: Ints
    machine: Ints
    is_preferred: Bools
    is_reserved: Bools
    is_flagged: Bools


@dataclass(frozen=True, slots=True, eq=False)
class RefusalColumns(Columns):
    """The parts of the policy's last plan that guards removed or reduced; empty if there are none.

    ``subject``: "application/task", with "/number" for an instance, or the application alone. ``what``: parallelism,
    memory, machine, cores, heap, threads, keep, bucket or route. ``asked`` and ``granted`` in its own unit; not
    measured where it has none.
    """

    subject: Names
    what: Names
    reason: Names
    asked: Floats | None = None
    granted: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSnapshot:
    """A cluster at ``time_s`` and in the ``window_s`` before it; ``number`` grows by one a snapshot."""

    number: int
    time_s: float
    window_s: float
    applications: ApplicationColumns = field(default_factory=ApplicationColumns.none)
    tasks: TaskColumns = field(default_factory=TaskColumns.none)
    edges: EdgeColumns = field(default_factory=EdgeColumns.none)
    queries: QueryColumns = field(default_factory=QueryColumns.none)
    machines: MachineColumns = field(default_factory=MachineColumns.none)
    instances: InstanceColumns = field(default_factory=InstanceColumns.none)
    outputs: OutputColumns = field(default_factory=OutputColumns.none)
    inputs: InputColumns = field(default_factory=InputColumns.none)
    partitions: PartitionColumns = field(default_factory=PartitionColumns.none)
    buckets: BucketColumns = field(default_factory=BucketColumns.none)
    services: ServiceColumns = field(default_factory=ServiceColumns.none)
    buffers: BufferColumns = field(default_factory=BufferColumns.none)
    reuse: ReuseColumns = field(default_factory=ReuseColumns.none)
    affinities: AffinityColumns = field(default_factory=AffinityColumns.none)
    refusals: RefusalColumns = field(default_factory=RefusalColumns.none)

    def __post_init__(self) -> None:
        if not self.window_s > 0:
            raise ValueError(f"a window is longer than 0 s, not {self.window_s}")
        for group, column, target in _REFERENCES:
            rows = getattr(getattr(self, group), column)
            count = len(getattr(self, target))
            if len(rows) and not (rows.min() >= 0 and rows.max() < count):
                raise ValueError(f"{group}.{column} names rows that the {count} {target} do not have")

    def task_names(self) -> list[tuple[str, str]]:
        """Return the name of every task after its application's."""
        applications, tasks = self.applications.name, self.tasks
        return [(applications[of], name) for of, name in zip(tasks.application.tolist(), tasks.name, strict=True)]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the schema's number."""
        plain = {"schema": SCHEMA, "number": self.number, "time_s": self.time_s, "window_s": self.window_s}
        return plain | {name: getattr(self, name).as_dict() for name in GROUPS}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ClusterSnapshot":
        """Return the snapshot that `as_dict` gave.

        Raises:
            ValueError: it has another schema, or is no snapshot.
        """
        if data.get("schema") != SCHEMA:
            raise ValueError(f"the snapshot has schema {data.get('schema')!r}; this version reads {SCHEMA}")
        expected = {"schema", "number", "time_s", "window_s", *GROUPS}
        if data.keys() != expected:
            raise ValueError(f"no snapshot: it has {sorted(data.keys() ^ expected)} too much or too little")
        groups = {name: kind.from_dict(data[name]) for name, kind in GROUPS.items()}
        return cls(data["number"], data["time_s"], data["window_s"], **groups)


GROUPS: dict[str, Any] = {
    item.name: item.type
    for item in fields(ClusterSnapshot)
    if isinstance(item.type, type) and item.type not in (int, float)
}
"""The groups of columns by name."""

_REFERENCES = (
    ("tasks", "application", "applications"),
    ("edges", "producer", "tasks"),
    ("edges", "consumer", "tasks"),
    ("queries", "task", "tasks"),
    ("instances", "task", "tasks"),
    ("instances", "machine", "machines"),
    ("outputs", "edge", "edges"),
    ("outputs", "instance", "instances"),
    ("inputs", "edge", "edges"),
    ("inputs", "instance", "instances"),
    ("partitions", "instance", "instances"),
    ("buckets", "task", "tasks"),
    ("buckets", "instance", "instances"),
    ("services", "application", "applications"),
    ("buffers", "machine", "machines"),
    ("buffers", "query", "queries"),
    ("reuse", "task", "tasks"),
    ("affinities", "instance", "instances"),
    ("affinities", "machine", "machines"),
)
