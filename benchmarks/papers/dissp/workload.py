"""Queries, sources and nodes of one seeded draw, and all batches that the sources send. Made for `simulation`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.dissp.cases import SheddingCase
from penstock.shedding.group_sums import total
from penstock.shedding.sic import source_tuple_sic

ARRIVAL, QUERY, FRAGMENT, SIC, ROWS, SENT = range(6)
"""Columns of batches; times in ms."""

Batches = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The work of one draw.

    ``place``: node of each (query, fragment), -1 beyond the last. ``row_ms``: processing time of a row there, of all
    operators together. ``sent``: batches by node and interval. ``generated``: SIC by (interval, query).
    """

    case: SheddingCase
    place: NDArray[np.int64]
    row_ms: NDArray[np.float64]
    overload: NDArray[np.float64]
    sent: tuple[tuple[Batches, ...], ...]
    generated: NDArray[np.float64]


def workload(case: SheddingCase, random: np.random.Generator) -> Workload:
    """Return a draw: fragments of a query are on different nodes, and a node's costs make its overload."""
    place = _places(case, random)
    source_query = np.repeat(np.arange(case.queries), case.sources)
    rate_rows_s = case.rate_rows_s * random.uniform(1, max(1.0, case.rate_ratio), len(source_query))
    query_rate = total(rate_rows_s, source_query, case.queries)
    overload = random.uniform(case.overload_low, case.overload_high, case.nodes)
    row_ms = _costs(case, place, query_rate, overload, random)
    row_ms_mean = _mean_cost(case, place, query_rate, row_ms)
    n_tuples = case.threads * case.interval_ms / row_ms_mean
    batch_rows = np.maximum(1, np.rint(case.batch_over_n * n_tuples[place[source_query, 0]]))
    sent, generated = _send(case, place, source_query, rate_rows_s, batch_rows, random)
    return Workload(case, place, row_ms, overload, sent, generated)


def _places(case: SheddingCase, random: np.random.Generator) -> NDArray[np.int64]:
    order = np.argsort(random.random((case.queries, case.nodes)), axis=1)[:, : case.fragments]
    length = random.integers(1, case.fragments + 1, case.queries)
    return np.where(np.arange(case.fragments) < length[:, None], order, -1)


def _costs(
    case: SheddingCase,
    place: NDArray[np.int64],
    query_rate: NDArray[np.float64],
    overload: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the cost of a row by (query, fragment), so that a node is asked for its overload times what it has."""
    operators = random.uniform(1, max(1.0, case.cost_ratio), (case.operators, *place.shape))
    row_ms = operators.mean(axis=0)
    rows_s = query_rate[:, None] * case.selectivity ** np.arange(case.fragments)
    demand = total((rows_s * row_ms).ravel(), (place + 1).ravel(), case.nodes + 1)[1:]
    scale = np.divide(overload * case.threads * 1000.0, demand, out=np.zeros(case.nodes), where=demand > 0)
    return np.where(place >= 0, row_ms * scale[place], 0.0)


def _mean_cost(
    case: SheddingCase, place: NDArray[np.int64], query_rate: NDArray[np.float64], row_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    rows_s = np.where(place >= 0, query_rate[:, None] * case.selectivity ** np.arange(case.fragments), 0.0)
    node = (place + 1).ravel()
    busy = total((rows_s * row_ms).ravel(), node, case.nodes + 1)[1:]
    rows = total(rows_s.ravel(), node, case.nodes + 1)[1:]
    return np.divide(busy, rows, out=np.ones(case.nodes), where=rows > 0)


def _send(
    case: SheddingCase,
    place: NDArray[np.int64],
    source_query: NDArray[np.int64],
    rate_rows_s: NDArray[np.float64],
    batch_rows: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[tuple[tuple[Batches, ...], ...], NDArray[np.float64]]:
    """Return what each source sends in an interval: all full batches it has, each at a moment of its own."""
    sources, delta = len(source_query), case.interval_ms
    noise = np.maximum(0.0, random.normal(1.0, case.rate_noise, (sources, case.intervals)))
    rows = rate_rows_s[:, None] * delta / 1000.0 * noise
    if case.batch_over_n > 0:
        # What does not fill a batch waits at the source; where each stands at first is drawn.
        size = np.broadcast_to(batch_rows[:, None], rows.shape)
        begun = random.random((sources, 1)) * size
        filled = np.floor((np.cumsum(rows, axis=1) + begun) / size).astype(np.int64)
        number = filled - np.append(np.zeros((sources, 1), np.int64), filled[:, :-1], axis=1)
    else:
        size, number = np.maximum(1.0, np.rint(rows)), np.ones(rows.shape, np.int64)
    estimate = rate_rows_s * delta / 1000.0 * case.window_intervals
    estimate *= np.maximum(0.1, random.normal(1.0, case.estimate_noise, sources))
    tuple_sic = source_tuple_sic(np.full(sources, float(case.sources)), estimate)
    source, interval = np.divmod(np.repeat(np.arange(number.size), number.ravel()), case.intervals)
    batches = np.empty((len(source), 6))
    # A moment of its own for every batch: sources in step would put the same ones last in every interval.
    batches[:, SENT] = interval * delta + random.uniform(0, delta, len(source))
    batches[:, ARRIVAL] = batches[:, SENT] + case.link_ms
    batches[:, QUERY] = source_query[source]
    batches[:, FRAGMENT] = 0
    batches[:, ROWS] = size[source, interval]
    batches[:, SIC] = batches[:, ROWS] * tuple_sic[source]
    generated = np.zeros((case.intervals, case.queries))
    np.add.at(generated, (interval, source_query[source]), batches[:, SIC])
    batches = batches[np.argsort(batches[:, ARRIVAL], kind="stable")]
    node = place[batches[:, QUERY].astype(np.int64), 0]
    edges = np.arange(1, case.intervals) * delta
    by_node = (batches[node == number] for number in range(case.nodes))
    return tuple(tuple(np.split(own, np.searchsorted(own[:, ARRIVAL], edges))) for own in by_node), generated
