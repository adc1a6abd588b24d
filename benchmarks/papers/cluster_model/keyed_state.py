"""State of keyed tasks: keys come and go by bucket, caches fill, memtables stall (docs/design/simulated-cluster.md 4).

The simulated cluster asks it now and then what a row costs. Hit rates are those of an LRU over a trace (`cache`);
memory is split as RocksDB under Flink does (docs/design/papers/justin-ds2.md 6).
"""

from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.cache import HitCurve, zipf_curve
from penstock.benchmarks.papers.cluster_model.spec import StateSpec
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.topology import Indices
from penstock.model.columns import Floats
from penstock.model.memory_levels import split


@dataclass(frozen=True, slots=True)
class AccessCosts:
    """Costs of accesses by instance, for a row: ``cpu_s`` and ``wait_s``, what stalls of writes allow, and hit rates.

    ``get_s`` and ``get_p90_s`` of one get, ``put_s`` of one put.
    """

    cpu_s: Floats
    wait_s: Floats
    most_per_s: Floats
    hit_rate: Floats
    get_s: Floats
    get_p90_s: Floats
    put_s: Floats


class KeyedState:
    """The state of one task: ``keys`` by bucket, and by instance number how many of its keys the cache holds.

    ``fresh_share`` of the rows that came last brought a new key.
    """

    def __init__(self, spec: StateSpec, shares: Floats, most_instances: int) -> None:
        """Start with the initial keys, dealt out as rows are, and cold caches."""
        self.spec = spec
        self.keys = spec.initial_keys * shares
        self.cached_keys = np.zeros(most_instances)
        self.fresh_share = 0.0
        self.curve: HitCurve = spec.curve or zipf_curve(spec.access_zipf)

    @property
    def bucket_bytes(self) -> Floats:
        """Bytes of each bucket."""
        return self.keys * self.spec.key_bytes

    def keys_of(self, owners: Indices, instances: int) -> Floats:
        """Return the keys that each instance owns."""
        return tally(owners, self.keys, instances)

    def advance(self, rows: Floats, owners: Indices, misses: Floats, managed: Floats, dt: float) -> None:
        """Let buckets have got ``rows``, and instances have loaded ``misses`` keys, in ``dt`` seconds."""
        spec = self.spec
        total = max(1e-300, float(rows.sum()))
        missing = max(0.0, spec.most_keys - float(self.keys.sum()))
        fresh = missing * -np.expm1(-spec.new_key_share * total / spec.most_keys) / total
        self.fresh_share = float(fresh)
        expired = -np.expm1(-dt / spec.retention_s)
        self.keys = self.keys * (1 - expired) + rows * fresh
        count = len(misses)
        own = self.keys_of(owners, count)
        fresh_rows = tally(owners, rows * fresh, count)
        held = self.cached_keys[:count] * (1 - expired) + misses + fresh_rows
        self.cached_keys[:count] = np.minimum(held, np.minimum(own, self.room(managed, own)))

    def room(self, managed: Floats, keys: Floats) -> Floats:
        """Return how many keys fit into the cache of instances that own so many.

        cache = managed - memtable;  useful = cache - fixed - index x keys - share x memtable;  room = useful / key
        """
        memtable, cache = split(managed)
        useful = cache - self.spec.fixed_bytes - self.spec.index_bytes * keys - self.spec.memtable_share * memtable
        room: Floats = np.maximum(0.0, useful) / self.spec.key_bytes
        return room

    def costs(self, owners: Indices, managed: Floats) -> AccessCosts:
        """Return what accesses cost each instance now."""
        spec = self.spec
        keys = self.keys_of(owners, len(managed))
        cached = self.cached_keys[: len(managed)]
        hit = self.curve(np.where(keys > 0, cached / np.maximum(keys, 1e-300), 1.0))
        miss = 1 - hit
        put = np.full(len(managed), spec.put_s)
        memtable, _ = split(managed)
        # While one memtable is written the next one fills; what fills faster than that waits.
        written_s = spec.flush_s + memtable / spec.flush_bytes_per_s
        row_bytes = max(spec.puts * spec.put_bytes, 1e-12)
        return AccessCosts(
            cpu_s=spec.gets * spec.hit_s + spec.puts * put,
            wait_s=spec.gets * miss * spec.miss_s,
            most_per_s=np.where(spec.puts > 0, memtable / (written_s * row_bytes), np.inf),
            hit_rate=hit,
            get_s=spec.hit_s + miss * spec.miss_s,
            get_p90_s=spec.hit_s + np.where(miss > 0.1, spec.miss_s, 0.0),
            put_s=put,
        )

    def move(self, cold: Indices) -> None:
        """Let instances, by number, begin with nothing in their caches."""
        self.cached_keys[cold] = 0.0
