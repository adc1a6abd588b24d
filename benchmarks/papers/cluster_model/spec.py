"""The specification of a simulated cluster: frozen, every figure with its unit. Scenarios make it of `Parameters`.

Tasks, machines, applications, services and queries refer to one another by name. Times are of one core at full speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.benchmarks.papers.cluster_model.cache import HitCurve
from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve

NEVER = Constant(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A machine that joins at ``joins_s`` and is lost at ``leaves_s``. ``foreign_cores`` is what other processes want,
    at most as many threads as it has cores; a link carries ``link_bytes_per_s`` each way, of which heartbeats take
    ``heartbeat_bytes_per_s``.
    """

    name: str
    cores: float
    memory_bytes: float
    link_bytes_per_s: float
    heartbeat_bytes_per_s: float
    foreign_cores: Curve = NEVER
    joins_s: float = 0.0
    leaves_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSpec:
    """A job that starts at ``starts_s``, and what it is given at first; None: without limit.

    Live heap is ``live_base_bytes``, the rows that wait times their bytes times ``buffer_overhead``, and
    ``heap_state_share`` of the state. Each row allocates ``allocated_bytes``. To collect garbage costs
    ``gc_s_per_byte`` of live heap. Resident are the heap that is committed, ``nonheap_bytes``, and
    ``thread_bytes`` an instance; more than ``memory_bytes`` of them, or a full heap, kills, and it is down
    for ``restart_s``. ``bytes_factor`` makes rows larger with time; ``checkpoint_s`` lies between checkpoints.
    """

    name: str
    live_base_bytes: float
    buffer_overhead: float
    heap_state_share: float
    allocated_bytes: float
    gc_s_per_byte: float
    nonheap_bytes: float
    thread_bytes: float
    restart_s: float
    checkpoint_s: float
    checkpoint_share: float
    cores: float | None = None
    memory_bytes: float | None = None
    heap_bytes: float | None = None
    bytes_factor: Curve = Constant(1.0)
    starts_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """State of a keyed task, in buckets.

    A row brings a new key with ``new_key_share``, less so the nearer the keys are to ``most_keys``; keys go
    ``retention_s`` after they came. A key takes ``key_bytes`` (its overhead included). A row does ``gets`` and ``puts``
    of ``put_bytes``. ``hit_s`` and ``put_s`` take the core, ``miss_s`` waits for storage; a miss loads ``block_bytes``.
    Of a task's cache ``fixed_bytes``, ``index_bytes`` a key and ``memtable_share`` of a memtable are no use to keys.
    A memtable is written in ``flush_s`` and its bytes at ``flush_bytes_per_s``. Accesses are Zipf(``access_zipf``),
    or those of a recorded trace, whose hit rates ``curve`` has.
    """

    new_key_share: float
    most_keys: float
    retention_s: float
    key_bytes: float
    gets: float
    puts: float
    put_bytes: float
    hit_s: float
    put_s: float
    miss_s: float
    block_bytes: float
    fixed_bytes: float
    index_bytes: float
    memtable_share: float
    flush_s: float
    flush_bytes_per_s: float
    access_zipf: float
    initial_keys: float = 0.0
    curve: HitCurve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task of ``parallelism`` instances at first, ``most_parallelism`` at most.

    A row takes ``cpu_s`` x (1 + ``sigma`` x (instances - 1)) of a core, of sources ``fetch_cpu_s`` before their
    shedder. A started instance is slower by ``warm_up_factor``, which fades with ``warm_up_s``. An input holds
    ``queue_rows``; batches have ``batch_rows`` or are ``linger_s`` old, and each costs ``batch_cpu_s``.
    With ``window_s`` its outputs leave at the ends of windows, for ``fire_cpu_s`` each. ``zipf``: exponent of the
    buckets' shares of a keyed task's rows. A row makes ``calls`` to ``service``, one after the other, or if
    ``in_flight`` is above 0 so many at a time. A source reads at most ``poll_rows_per_s``. ``initial_level``
    and ``initial_managed_bytes`` are the memory of its state.
    """

    name: str
    application: str
    parallelism: int
    most_parallelism: int
    cpu_s: float
    fetch_cpu_s: float
    sigma: float
    warm_up_factor: float
    warm_up_s: float
    queue_rows: float
    batch_rows: float
    batch_cpu_s: float
    linger_s: float
    poll_rows_per_s: float
    key_groups: int
    zipf: float
    window_s: float = 0.0
    fire_cpu_s: float = 0.0
    is_keyed: bool = False
    state: StateSpec | None = None
    service: str | None = None
    calls: float = 0.0
    in_flight: int = 0
    initial_level: int = 0
    initial_managed_bytes: float = 0.0
    machines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The log that a source task reads: partitions with parts of the rate, which need not add up to 1 exactly.

    With ``is_random`` rows arrive as a Poisson process. ``target_rate`` says that policies are told the rate.
    """

    task: str
    rate: Curve
    partition_shares: tuple[float, ...]
    is_random: bool
    target_rate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """Rows from one task to another, ``selectivity`` of them for a row taken in; ``exchange``: free or hash."""

    producer: str
    consumer: str
    selectivity: float
    exchange: str
    row_bytes: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A remote service: latency around a curve (lognormal, ``sigma``, correlated over ``correlation_s``).

    It answers ``most_calls_per_s``, slower the nearer to it; calls fail with ``error_share`` and are then repeated,
    ``retries`` times at most.
    """

    name: str
    application: str
    latency_s: Curve
    sigma: float
    correlation_s: float
    most_calls_per_s: float
    error_share: Curve
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpec:
    """A query by its sink's task."""

    name: str
    task: str
    priority: float
    minimum_accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """Changes of running instances by the platform.

    An action takes ``fixed_s``, and for the instance that has most to restore ``access_s`` for each of its storage
    accesses and its bytes at ``restore_bytes_per_s``. It pauses all of the ``application``, the ``task``, or (``live``)
    only the moved ones, for ``pause_s`` at its end. It restores ``all`` of what it paused, or what ``moved``;
    ``accesses_per_bucket`` and ``accesses_per_instance`` are what that takes. With ``is_resized_in_place`` memory and
    cores change without a pause. ``owners`` of buckets when a task is resized: only what must moves ("sticky"),
    contiguous ranges ("ranges"), or bucket mod instances ("modulo"). ``places``: new instances start on the machine
    with most room ("spread"), or wait for a Placement ("policy").
    """

    scope: str
    restores: str
    fixed_s: float
    pause_s: float
    access_s: float
    accesses_per_bucket: float
    accesses_per_instance: float
    restore_bytes_per_s: float
    is_resized_in_place: bool
    owners: str
    places: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSpec:
    """Delivery of metrics to their readers.

    Every ``every_s`` instances report what they counted, read ``late_s`` later; a figure is off by a normal factor of
    ``noise_share``; a report is missing with ``missing_probability``. Kafka clients keep maxima for two windows of
    ``lag_window_s``. Of accesses to state ``sample_share`` are looked at.
    """

    every_s: float
    late_s: float
    noise_share: float
    missing_probability: float
    lag_window_s: float
    sample_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A whole simulated cluster. Tasks are named once in a cluster, each after those it reads from."""

    machines: Sequence[MachineSpec]
    applications: Sequence[ApplicationSpec]
    tasks: Sequence[TaskSpec]
    sources: Sequence[SourceSpec]
    actions: ActionSpec
    reports: ReportSpec
    edges: Sequence[EdgeSpec] = ()
    services: Sequence[ServiceSpec] = ()
    queries: Sequence[QuerySpec] = field(default=())
