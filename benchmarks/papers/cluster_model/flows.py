"""Inputs and results of a step of the fluid, as columns. Made by the simulated cluster, read by `step`."""

from dataclasses import dataclass, field

import numpy as np

from penstock.benchmarks.papers.cluster_model.topology import Indices, Topology
from penstock.model.columns import Bools, Floats


@dataclass(slots=True)
class RowStores:
    """Rows by their place: in inputs, on links, in windows, and as results that have had no room.

    ``lag`` of sources' instances. ``in_rate`` (rows a second that came into each input) and ``room_rate`` (units a
    second that each instance's outputs had room for) are those of the steps before.
    """

    queue: Floats
    flying: Floats
    held: Floats
    pending: Floats
    lag: Floats
    in_rate: Floats
    room_rate: Floats


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a unit at an instance; a unit is a row taken in, of sources a row fetched.

    ``cpu_s`` of a core; ``busy_s`` with waits for storage, ``thread_s`` with those for remote services, too.
    ``most_per_s`` whatever the core does, because of answers that are awaited (``is_remote``) or because memtables are
    full (``is_stall``). ``fire_s`` for each result of a window.
    """

    cpu_s: Floats
    busy_s: Floats
    thread_s: Floats
    most_per_s: Floats
    is_remote: Bools
    is_stall: Bools
    fire_s: Floats


@dataclass(frozen=True, slots=True)
class Pipes:
    """Properties of edges and inputs: by edge ``selectivity`` and ``keep``, by input ``capacity`` and ``delay_s``.

    ``source_keep`` by instance; ``link_rows`` by edge, what links let through in this step (None: all);
    ``is_windowed`` by instance (None: none is), and ``fires`` whether its window is over.
    """

    selectivity: Floats
    keep: Floats
    delay_s: Floats | None
    capacity: Floats
    source_keep: Floats
    link_rows: Floats | None
    is_windowed: Bools | None
    fires: Bools


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores of machines; claims of foreign threads and their machines; of applications (None: without limit)."""

    machine: Floats
    foreign: Floats
    foreign_machine: Indices
    application: Floats | None


@dataclass(slots=True)
class StepFlows:
    """Flows of a step: rows and seconds.

    By instance: ``taken`` units, ``kept`` of them, ``emitted`` by windows, ``cpu``, ``busy`` (of it ``stall``) and the
    waits; ``foreign`` by machine; by input ``arrived`` and ``consumed``; by output ``produced`` and ``dropped``; by
    edge ``sent``, and ``wanted``, what its producers would send through links without a limit.
    """

    taken: Floats
    kept: Floats
    emitted: Floats
    arrived: Floats
    consumed: Floats
    produced: Floats
    dropped: Floats
    wanted: Floats
    throttled: Floats
    sent: Floats = field(init=False)
    cpu: Floats = field(init=False)
    busy: Floats = field(init=False)
    stall: Floats = field(init=False)
    remote: Floats = field(init=False)
    core_wait: Floats = field(init=False)
    input_wait: Floats = field(init=False)
    output_wait: Floats = field(init=False)
    foreign: Floats = field(init=False)


def no_moves(top: Topology, edges: int) -> StepFlows:
    """Return a step in which nothing happened yet; what its end alone tells is not there."""
    taken, kept, emitted, throttled = np.zeros((4, top.count))
    arrived, consumed = np.zeros((2, len(top.input_edge)))
    produced, dropped = np.zeros((2, len(top.output_edge)))
    return StepFlows(taken, kept, emitted, arrived, consumed, produced, dropped, np.zeros(edges), throttled)
