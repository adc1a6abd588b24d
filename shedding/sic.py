"""Source information content: the share of a query's input that a tuple represents (THEMIS, SIGMOD 2016).

All source tuples of a query add up to 1 in a source time window, and every operator passes on what it took in
(docs/design/papers/dissp.md 2).
"""

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import Counts, total


def source_tuple_sic(sources: Floats, tuples: Floats) -> Floats:
    """Return the SIC of a tuple of a source, by query (THEMIS, definition of SIC).

    sic(t) = 1 / (|S_q| * |T_s|)
      |S_q|  sources of the query, >= 1
      |T_s|  tuples that the source generates in the source time window, all instances and partitions, > 0
    """
    return 1.0 / (np.asarray(sources, np.float64) * np.asarray(tuples, np.float64))


def tuples_of_sources(snapshot: ClusterSnapshot, stw_s: float) -> Floats | None:
    """Return |T_s| of every task, to be sent to all its instances; None: appended rows are not measured.

    |T_s| = sum over the partitions of all instances of appended rows * STW / window
      STW  length of the source time window, s

    NaN for a task that reads no partition, and for one of whose partitions a figure is missing. If each
    instance used its own rows as |T_s|, it would generate a SIC of 1 by itself, and p instances one of p.
    """
    appended = snapshot.partitions.appended
    if appended is None:
        return None
    task = snapshot.instances.task[snapshot.partitions.instance]
    tasks = len(snapshot.tasks)
    counts = total(appended, task, tasks) * (stw_s / snapshot.window_s)
    return np.where(np.bincount(task, minlength=tasks) > 0, counts, np.nan)


def weighted_tuple_sic(sources: float, weight: Floats) -> Floats:
    """Return the SIC of a source's tuples of different worth: by the variance of a stratum, or a user's utility.

    sic(t) = w_t / (|S_q| * sum over T_s of w)
      w  worth of a tuple, >= 0; equal ones give `source_tuple_sic`
    """
    return weight / (sources * float(weight.sum()))


def derived_tuple_sic(taken: Floats, rows_out: Counts) -> Floats:
    """Return the SIC of each tuple that an operator derives from an atomic set, such as a pane or a batch.

    sic = sum over In of sic(t) / |Out|
      taken     sum of SIC of the atomic set In; of a join, that of both sides
      rows_out  |Out|, >= 1
    """
    return taken / rows_out


def hand_on(sic: Floats, rows_out: Counts, carried: Floats) -> tuple[Floats, Floats]:
    """Return the SIC of batches behind a filter or map, and what is carried to the next output.

    Survivors share the whole SIC of their batch. A batch without survivors adds its own to the next batch
    with survivors; the remainder at the end is carried, or sent in a marker that consists of SIC only.

      sic       batches in order, (batches, queries): one SIC for each query that they feed
      rows_out  rows that survive, by batch
      carried   by query, from the call before
    """
    survives = rows_out > 0
    next_survivor: Counts = np.cumsum(survives) - survives
    sums = np.zeros((int(survives.sum()) + 1, sic.shape[1]))
    np.add.at(sums, next_survivor, sic)
    sums[0] += carried
    out = np.zeros_like(sic)
    out[survives] = sums[:-1]
    return out, sums[-1]


def over_windows(time: Counts, sic: Floats, size: int, slide: int) -> tuple[Counts, Floats]:
    """Return the starts of sliding windows and the SIC of each: a tuple's is split equally over those it enters.

    It enters the windows [k * slide, k * slide + size) that hold its time: size / slide of them, one more or fewer if
    the slide does not divide the size.

    Raises:
        ValueError: the slide is longer than the size, so that some tuples would enter no window.
    """
    if not 0 < slide <= size:
        raise ValueError(f"a window of {size} that slides by {slide} leaves tuples out")
    last = time // slide
    first = (time - size) // slide + 1
    entered = last - first + 1
    tuple_of = np.repeat(np.arange(len(time)), entered)
    nth = np.arange(len(tuple_of)) - np.repeat(np.cumsum(entered) - entered, entered)
    starts, window = np.unique((first[tuple_of] + nth) * slide, return_inverse=True)
    return starts, total((sic / entered)[tuple_of], window, len(starts))


def normalised(q_sic: Floats, generated: Floats) -> Floats:
    """Return nSIC by query, in [0, 1]: misestimated source rates cancel.

    nSIC(q) = qSIC / SIC generated in the same source time window

    NaN where nothing was generated. Late results cannot raise it above 1.
    """
    share = np.full(len(q_sic), np.nan)
    np.divide(q_sic, generated, out=share, where=generated > 0)
    capped: Floats = np.minimum(share, 1.0)
    return capped


def jain_index(x: Floats) -> float:
    """Return Jain's fairness index: 1 if all figures are equal, 1/n if one has everything.

    J = (sum x)^2 / (n * sum x^2)
      x  nSIC by query, >= 0

    If all are 0 they are equal.

    Raises:
        ValueError: there is no figure.
    """
    if not len(x):
        raise ValueError("the fairness of no query is not defined")
    # The index has no unit; the largest figure for one keeps squares from running out of range.
    largest = float(x.max())
    if largest == 0:
        return 1.0
    y = x / largest
    return float(y.sum() ** 2 / (len(y) * (y * y).sum()))
