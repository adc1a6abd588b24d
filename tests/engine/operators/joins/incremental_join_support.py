"""Changes on two sides of a join, cut into batches, and what the join of the rows present must then be."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import Batch
from penstock.engine.operators.changelog import weights_of, with_weights
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import WEIGHT, StreamSchema
from penstock.state.store import Locate, Positions
from tests.engine.restarts import Restarting, locate_by

Rows = Counter[tuple[Any, ...]]

LEFT = pa.schema([("a", pa.int64()), ("s", pa.string()), ("x", pa.string()), ("u", pa.list_(pa.int64()))])
RIGHT = pa.schema([("b", pa.int32()), ("t", pa.string()), ("y", pa.float64())])

KEYS: dict[str, tuple[Any, Any]] = {
    "number": ((col("a"),), (col("b"),)),
    "text": ((col("s"),), (col("t"),)),
    "both": ((col("s"), col("a")), (col("t"), col("b"))),
    "computed": ((col("a") + 1,), (col("b") + 1,)),
}
OUTPUTS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "all": (*((name, 0, name) for name in LEFT.names), *((name, 1, name) for name in RIGHT.names)),
    "values": (("x", 0, "x"), ("y", 1, "y")),
    "left keys": (("s", 0, "s"), ("a", 0, "a"), ("x", 0, "x"), ("y", 1, "y")),
    "left only": (("x", 0, "x"),),
    "lists": (("u", 0, "u"), ("y", 1, "y")),
}


@dataclass(frozen=True)
class Step:
    """One change: a row of a side, inserted or retracted; ``number`` and ``text`` are its keys."""

    side: int
    number: int | None
    text: str | None
    value: int | None
    weight: int

    def row(self) -> dict[str, Any]:
        if self.side == 0:
            value = None if self.value is None else f"x{self.value}"
            return {"a": self.number, "s": self.text, "x": value, "u": None if self.value is None else [self.value]}
        return {"b": self.number, "t": self.text, "y": None if self.value is None else self.value / 2}


def batches_of(steps: Sequence[Step], sizes: list[int], changelog: tuple[bool, bool]) -> Iterator[tuple[int, Any]]:
    """Yield (side, batch, steps so far), cut wherever the side or the next size ends."""
    start = turn = 0
    for index in range(1, len(steps) + 1):
        run = steps[start:index]
        ends = index == len(steps) or steps[index].side != run[0].side
        if not ends and len(run) < sizes[turn % len(sizes)]:
            continue
        side = run[0].side
        rows = pa.RecordBatch.from_pylist([step.row() for step in run], schema=(LEFT, RIGHT)[side])
        if changelog[side]:
            rows = with_weights(rows, np.array([step.weight for step in run], np.int8))
        yield side, (rows, steps[:index])
        start, turn = index, turn + 1


def signed(rows: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield every row of a changelog as a tuple, and its weight."""
    plain = [tuple(map(repr, row.values())) for row in rows.drop_columns([WEIGHT]).to_pylist()]
    yield from zip(plain, weights_of(rows).tolist(), strict=True)


def feed(join: Operator, port: int, rows: pa.RecordBatch, into: Rows) -> None:
    """Process one batch; add its changes to the rows that are out, and check how they came."""
    phase, cancelled, turns = -1, Counter[tuple[Any, ...]](), 1
    for output, emitted in join.process(port, Batch(rows)):
        assert output == MAIN
        assert 0 < emitted.rows.num_rows <= join.context.batch_rows
        found = list(signed(emitted.rows))
        for row, weight in found:
            turns += weight < phase
            phase = weight
            into[row] += weight
        cancelled = Counter(row for row, _ in set(found))
        assert not cancelled or max(cancelled.values()) == 1, "a row and its retraction in one batch"
    assert turns <= (len(join._inner) if isinstance(join, Restarting) else 1), "a retraction after an insertion"
    assert join.context.counters.balanced()
    assert not into or min(into.values()) >= 0, "more was retracted than was out"


def joined(steps: Sequence[Step], spec: JoinSpec, keys: str) -> Rows:
    """Join the rows that are present after all steps with nested loops; what is not in use tells no rows apart."""
    present: list[list[Step]] = []
    for side in (0, 1):
        shown = {column for _, of, column in spec.output if of == side}
        numbered, named = keys != "text" or shown & {"a", "b"}, keys in ("text", "both") or shown & {"s", "t"}
        valued = shown & {"x", "u", "y"}
        net: Counter[Step] = Counter()
        for step in steps:
            if step.side == side:
                number, text = step.number if numbered else None, step.text if named else None
                net[Step(side, number, text, step.value if valued else None, 1)] += step.weight
        present.append([step for step, count in net.items() for _ in range(count)])

    def key(step: Step) -> tuple[Any, ...]:
        parts = {"number": (step.number,), "computed": (step.number,), "text": (step.text,)}
        return parts.get(keys, (step.number, step.text))

    pairs: list[tuple[Step | None, Step | None]] = [
        (one, other) for one in present[0] for other in present[1] if key(one) == key(other) and None not in key(one)
    ]
    for side, hows in ((0, ("left", "full")), (1, ("right", "full"))):
        if spec.how in hows:
            matched = {pair[side] for pair in pairs}
            alone = [step for step in present[side] if step not in matched]
            pairs += [(step, None) if side == 0 else (None, step) for step in alone]
    found: Rows = Counter()
    for pair in pairs:
        rows = [{} if step is None else step.row() for step in pair]
        found[tuple(repr(rows[side].get(column)) for _, side, column in spec.output)] += 1
    return found


def schemas(changelog: tuple[bool, bool]) -> tuple[StreamSchema, StreamSchema]:
    return StreamSchema(LEFT, None, changelog[0]), StreamSchema(RIGHT, None, changelog[1])


def locate(keys: str) -> tuple[Locate, Locate]:
    """Return where the rows of both sides lie."""
    columns = {"number": ("a", "b"), "text": ("s", "t"), "both": ("sa", "tb")}
    if keys != "computed":
        left, right = columns[keys]
        return locate_by(*left), locate_by(*right)
    return _locate_computed("a"), _locate_computed("b")


def _locate_computed(column: str) -> Locate:
    def locate(rows: pa.RecordBatch) -> Positions:
        return locate_by("key")(pa.record_batch({"key": pc.add(rows.column(column), 1)}))

    return locate
