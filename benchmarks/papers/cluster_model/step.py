"""One step of the fluid: cores are shared, rooms are found from the sinks up, rows flow from the sources down.

As docs/design/simulated-cluster.md 1, 2, 3 and 9 have it. A row may pass several tasks in a step, so that a long step
differs from short ones only in what happens inside it. Called by the simulated cluster, which keeps what is handed in
here.
"""

from typing import NamedTuple

import numpy as np

from penstock.benchmarks.papers.cluster_model.flows import Cores, Costs, Pipes, RowStores, StepFlows, no_moves
from penstock.benchmarks.papers.cluster_model.sharing import allowances
from penstock.benchmarks.papers.cluster_model.sharing import levels as max_min_levels
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.topology import Level, Topology
from penstock.model.columns import Bools, Floats

TINY = 1e-9
MOST_ROOM = 1e15
"""Rows a second: more room than that is no different."""


def step(
    top: Topology,
    stores: RowStores,
    costs: Costs,
    pipes: Pipes,
    cores: Cores,
    running: Bools,
    dt: float,
    drops: np.random.Generator,
) -> StepFlows:
    """Move rows for ``dt`` seconds; ``stores`` are changed, nothing else."""
    moved = no_moves(top, len(pipes.selectivity))
    expected = stores.queue + stores.in_rate * dt
    waiting = tally(top.input_instance, expected, top.count)
    fire: Floats | float = 0.0
    if pipes.is_windowed is not None:
        stores.pending += stores.held * pipes.fires
        stores.held *= ~pipes.fires
        fire = stores.pending * costs.fire_s
    by_thread = np.minimum(1 / np.maximum(costs.thread_s, 1e-12), costs.most_per_s) * dt
    demand = np.minimum(np.minimum(stores.lag + waiting, stores.room_rate * dt), by_thread)
    claims = np.minimum(demand * costs.cpu_s + fire, dt) * running
    allowed, load = _allowed(top, claims, cores, dt, moved)
    by_cpu = np.maximum(0.0, allowed - fire) / np.maximum(costs.cpu_s, 1e-12)
    able = np.minimum(np.where(costs.cpu_s > 0, by_cpu, np.inf), by_thread) * running

    drain, room, emit = _rooms(top, stores, pipes, able, running, expected, waiting, moved)
    _flow(top, stores, pipes, drain, emit, dt, drops, moved)
    limits = _Limits(able < by_thread, drain >= able * (1 - 1e-9))
    _account(top, stores, costs, limits, load, cores, dt, moved)
    # Half of the old ones: the shares of a producer and its consumer on one core would swing otherwise.
    stores.in_rate = (stores.in_rate + moved.arrived / dt) / 2
    # After a change of layout nothing is known: half of MOST_ROOM would let claims be too large for 37 steps.
    now = np.minimum(room / dt, MOST_ROOM)
    stores.room_rate = np.where(np.isinf(stores.room_rate), now, (stores.room_rate + now) / 2)
    return moved


class _Limits(NamedTuple):
    """Instances that the core holds below what their threads could do, and those with room for all that they send."""

    by_core: Bools
    has_room: Bools


def _allowed(top: Topology, claims: Floats, cores: Cores, dt: float, flows: StepFlows) -> tuple[Floats, Floats]:
    """Return seconds of a core for each instance, and the load of each machine."""
    most: Floats | float = dt
    if cores.application is not None:
        most = np.minimum(dt, allowances(claims, top.application, cores.application * dt))
        flows.throttled = claims - np.minimum(claims, most)
        claims = claims - flows.throttled
    capacity = cores.machine * dt
    everyone = np.concatenate((claims, cores.foreign * dt))
    owner = np.concatenate((top.place, cores.foreign_machine))
    share = np.minimum(everyone, max_min_levels(everyone, owner, capacity)[owner])
    used = tally(owner, share, len(capacity))
    spare = np.maximum(0.0, capacity - used) / np.maximum(1, np.bincount(top.place, minlength=len(capacity)))
    flows.foreign = tally(cores.foreign_machine, share[top.count :], len(capacity))
    return np.minimum(share[: top.count] + spare[top.place], most), used / np.maximum(capacity, TINY)


def _rooms(
    top: Topology,
    stores: RowStores,
    pipes: Pipes,
    able: Floats,
    running: Bools,
    expected: Floats,
    waiting: Floats,
    flows: StepFlows,
) -> tuple[Floats, Floats, Floats]:
    """Return the units each instance can take, those there is room for below it, and what its windows emit."""
    drain = able.copy()
    emit = np.zeros(top.count) if pipes.is_windowed is None else stores.pending * (pipes.is_windowed & running)
    room = np.full(top.count, np.inf)
    edge_room = np.full(len(pipes.selectivity), np.inf) if pipes.link_rows is None else pipes.link_rows.copy()
    free = pipes.capacity - stores.queue - stores.flying
    for level in reversed(top.levels):
        rows, edges = level.instances, level.produced
        if len(edges):
            there = np.minimum(drain[rows], stores.lag[rows] + waiting[rows])
            first, more = _factors(level, stores, pipes, running[rows], there, drain[rows], edge_room[edges], flows)
            room[rows] = np.where(np.isfinite(first), there * np.minimum(first, 1e12), np.inf)
            granted = there * np.minimum(first, 1.0) + (drain[rows] - there) * np.minimum(more, 1.0)
            room[rows] = np.maximum(room[rows], granted)
            if pipes.is_windowed is not None:
                windowed = pipes.is_windowed[rows]
                emit[rows] = np.where(windowed, emit[rows] * np.minimum(first, 1.0), 0.0)
                stuck = stores.pending[rows] > emit[rows] + TINY
                granted = np.where(windowed, drain[rows] * ~stuck, granted)
                room[rows] = np.where(windowed, np.where(stuck, 0.0, np.inf), room[rows])
            drain[rows] = granted
        if len(level.consumed):
            mine, ins = level.input_instance, level.inputs
            total = waiting[rows][mine]
            part = np.where(total > 0, expected[ins] / np.maximum(total, 1e-300), level.even)
            share = top.input_share[ins]
            has = np.maximum(0.0, free[ins] + drain[rows][mine] * part) / np.maximum(share, 1e-300)
            edge_room[level.consumed] = np.minimum(
                edge_room[level.consumed], np.minimum.reduceat(np.where(share > 0, has, np.inf), level.starts)
            )
    return drain, room, emit


def _factors(
    level: Level,
    stores: RowStores,
    pipes: Pipes,
    running: Bools,
    there: Floats,
    able: Floats,
    edge_room: Floats,
    flows: StepFlows,
) -> tuple[Floats, Floats]:
    """Return what part of the units that are there each instance may take, and what part of those that it could do.

    What is there goes first: room that were kept for instances without rows would be lost to those that have them.
    """
    keep, edges, owner = pipes.source_keep[level.instances], level.produced, level.output_instance
    units, others = there * keep, (able - there) * keep
    if pipes.is_windowed is not None:
        windowed = pipes.is_windowed[level.instances]
        units = np.where(windowed, stores.pending[level.instances] * running, units)
        others = np.where(windowed, 0.0, others)
    through = pipes.selectivity[edges] * pipes.keep[edges]
    demand = tally(level.output_edge, units[owner], len(edges)) * through
    flows.wanted[edges] = demand
    fits = edge_room / np.maximum(demand, 1e-300)
    rest = np.maximum(0.0, edge_room - demand)
    left = rest / np.maximum(tally(level.output_edge, others[owner], len(edges)) * through, 1e-300)
    first, more = np.full(len(there), np.inf), np.full(len(there), np.inf)
    np.minimum.at(first, owner, fits[level.output_edge])
    np.minimum.at(more, owner, left[level.output_edge])
    return first, more


def _flow(
    top: Topology,
    stores: RowStores,
    pipes: Pipes,
    drain: Floats,
    emit: Floats,
    dt: float,
    drops: np.random.Generator,
    flows: StepFlows,
) -> None:
    """Let rows go down, and change the stores."""
    sent = np.zeros(len(pipes.selectivity))
    sheds = bool((pipes.keep < 1).any())
    for level in top.levels:
        rows, outs = level.instances, level.outputs
        if len(level.consumed):
            _take(top, level, stores, pipes, drain, sent, dt, flows)
        else:
            flows.taken[rows] = np.minimum(stores.lag[rows], drain[rows])
            stores.lag[rows] -= flows.taken[rows]
            flows.kept[rows] = kept_of(flows.taken[rows], pipes.source_keep[rows], drops)
        leaving = flows.kept[rows]
        if pipes.is_windowed is not None:
            windowed = pipes.is_windowed[rows]
            stores.held[rows] += np.where(windowed, leaving, 0.0)
            flows.emitted[rows] = np.where(windowed, emit[rows], 0.0)
            stores.pending[rows] -= flows.emitted[rows]
            leaving = np.where(windowed, emit[rows], leaving)
        if len(level.produced):
            edges = top.output_edge[outs]
            produced = leaving[level.output_instance] * pipes.selectivity[edges]
            kept = produced
            flows.produced[outs] = produced
            if sheds:
                kept = kept_of(produced, pipes.keep[edges], drops)
                flows.dropped[outs] = produced - kept
            sent[level.produced] = tally(level.output_edge, kept, len(level.produced))
    flows.sent = sent


def _take(
    top: Topology,
    level: Level,
    stores: RowStores,
    pipes: Pipes,
    drain: Floats,
    sent: Floats,
    dt: float,
    flows: StepFlows,
) -> None:
    """Let what was sent come into a level's inputs, and its instances take of it what they can."""
    rows, ins, mine = level.instances, level.inputs, level.input_instance
    arrived = sent[top.input_edge[ins]] * top.input_share[ins]
    if pipes.delay_s is not None:
        # At a constant rate r, r x delay rows are on their way.
        delay = pipes.delay_s[ins]
        stays = np.exp(-dt / np.maximum(delay, 1e-12))
        flying = stores.flying[ins] * stays + arrived / dt * delay * (1 - stays)
        arrived = np.maximum(0.0, stores.flying[ins] + arrived - flying)
        stores.flying[ins] = flying
    flows.arrived[ins] = arrived
    full = stores.queue[ins] + arrived
    at_hand = tally(mine, full, rows.stop - rows.start)
    taken = np.minimum(at_hand, drain[rows])
    # First what would not fit otherwise, then of each input alike.
    must = np.minimum(np.maximum(0.0, full - pipes.capacity[ins]), full)
    all_must = tally(mine, must, len(taken))
    less = np.minimum(1.0, taken / np.maximum(all_must, 1e-300))
    rest = np.minimum(1.0, (taken - all_must * less) / np.maximum(at_hand - all_must * less, 1e-300))
    must *= less[mine]
    consumed = np.minimum(full, must + (full - must) * rest[mine])
    stores.queue[ins] = full - consumed
    flows.consumed[ins] = consumed
    flows.taken[rows] = tally(mine, consumed, len(taken))
    flows.kept[rows] = flows.taken[rows]


def kept_of(rows: Floats, keep: Floats, drops: np.random.Generator) -> Floats:
    """Return how many rows a shedder keeps, each with probability ``keep``; a broken row is kept in part."""
    if (keep >= 1).all():
        return rows
    whole = np.floor(rows)
    kept = drops.binomial(whole.astype(np.int64), np.clip(keep, 0.0, 1.0)) + (rows - whole) * keep
    return np.where(keep >= 1, rows, kept)


def _account(
    top: Topology,
    stores: RowStores,
    costs: Costs,
    limits: _Limits,
    load: Floats,
    cores: Cores,
    dt: float,
    flows: StepFlows,
) -> None:
    """Say where each instance's time went; the parts add up to ``dt``.

    An instance of load a, on a core whose other load is b, has work during a / (1 - b) of the time (processor sharing,
    Poisson arrivals); where several cores are shared b counts to the power of their number.
    """
    by_core, has_room = limits
    fired = flows.emitted * costs.fire_s
    flows.cpu = np.minimum(dt, flows.taken * costs.cpu_s + fired)
    flows.busy = np.minimum(dt, flows.taken * costs.busy_s + fired)
    flows.remote = np.minimum(dt - flows.busy, flows.taken * (costs.thread_s - costs.busy_s))
    rest = dt - flows.busy - flows.remote
    left = stores.lag + tally(top.input_instance, stores.queue, top.count) > 1e-6 * (1 + flows.taken)
    limited = left & has_room & ~by_core
    flows.stall = rest * (limited & costs.is_stall)
    flows.busy += flows.stall
    answers = (rest - flows.stall) * (limited & costs.is_remote)
    flows.remote += answers
    rest = rest - flows.stall - answers
    number = cores.machine[top.place]
    mine = flows.cpu / dt
    others = np.clip(load[top.place] - mine / number, 0.0, 1 - 1e-3) ** number
    contended = np.minimum(rest, dt * mine * others / (1 - others))
    flows.core_wait = np.where(left & has_room & by_core, rest, contended)
    stopped = (left | (stores.pending > TINY)) & ~has_room
    flows.output_wait = (rest - flows.core_wait) * stopped
    flows.input_wait = rest - flows.core_wait - flows.output_wait
