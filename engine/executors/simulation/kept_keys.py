"""What a run that drops rows by keys may have written: whole results, of keys that stay at the rates of its log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.plan.key_samplers import sampled_operators
from penstock.model.job_graph import JobGraph, SinkSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.shedding.kept_log import Stretch
from penstock.shedding.key_sampling import key_steps
from penstock.state.keys.batch_keys import KeyCodec

_ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True)
class KeySample:
    """A sampler of keys by the name of its branch, and the columns with its keys in what is written behind it."""

    branch: str
    keys: tuple[str, ...]


def key_samples(graph: JobGraph) -> Mapping[str, KeySample]:
    """Return the samplers of a plan right behind which results are written, by the names of the sinks."""
    return {
        consumer.name: KeySample(branch, keys)
        for operator, branch, keys in sampled_operators(graph)
        for consumer, _ in graph.consumers(operator)
        if isinstance(consumer.spec, SinkSpec)
    }


def allowed(sample: KeySample, whole: pa.Table, written: pa.Table, seed: int, stretches: Sequence[Stretch]) -> pa.Table:
    """Return what must have been written, and of what may be missing that which was written and may be.

    A result of ``whole``, those of a run that drops nothing, must be there if its key stays at the least rate of the
    log, and may be if it stays at the accuracy that it says, which is no less.
    """
    least = min((steps_of(item.branches.get(sample.branch, item.keep)) for item in stretches), default=STEPS)
    keys = [whole[name].combine_chunks() for name in sample.keys]
    steps = key_steps(seed, KeyCodec([key.type for key in keys]).hash(keys, whole.num_rows)).tolist()
    accuracies = {_identity(row): row[_ACCURACY] for row in written.to_pylist()}
    rows: list[dict[str, Any]] = []
    for row, step in zip(whole.to_pylist(), steps, strict=True):
        accuracy = accuracies.get(_identity(row))
        if step < least or (accuracy is not None and step < accuracy * STEPS):
            is_possible = accuracy is not None and least <= accuracy * STEPS <= STEPS
            rows.append(row | {_ACCURACY: accuracy if is_possible else least / STEPS})
    return pa.Table.from_pylist(rows, whole.schema)


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name != _ACCURACY)
