"""All aggregates of one operator over one table; group-by and window operators hold one
`Aggregation` each.

Aggregates over the same expressions share state where one can answer for both (sum and mean, two
quantiles), and ``count()`` of rows is the hidden count that tells an operator which groups are
empty.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.arrays import NO_SIGNS, Rows, build
from penstock.engine.accumulators.bags import DISTINCT, MOST_LANES, CountDistinct, count_distinct
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.engine.accumulators.estimates import Estimates, Sample
from penstock.engine.accumulators.registry import make_accumulator
from penstock.engine.accumulators.weighted_part import WEIGHTED, WeightedPart
from penstock.engine.kernels.accumulate import add_counts, add_deltas
from penstock.engine.kernels.running_totals import scan_counts
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import NumericOverflowError, PlanError, UserError
from penstock.model.expressions import Expr
from penstock.model.max_error import CONFIDENCE
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, ColumnSpec, KeyedTable, Slots, VectorColumn

ROWS = "rows"
"""The hidden column: the sum of the weights of all rows of a group, whatever their values and
filters.
"""


class Aggregation:
    """The state and results of the aggregates of one operator.

    ``input_types[j]`` are the types of the inputs of ``calls[j]``; ``updating`` says that rows can
    be retracted. Without ``sharing`` every aggregate has state of its own. ``sample`` says what results tell of rows
    that were shed, their intervals at ``confidence``.

    Raises:
        ExpressionError: an aggregate does not take its inputs.
        PlanError: an aggregate cannot be built, or cannot retract although rows can be retracted.
    """

    def __init__(
        self,
        operator: str,
        names: Sequence[str],
        calls: Sequence[AggregateCall],
        input_types: Sequence[Sequence[pa.DataType]],
        updating: bool = False,
        sharing: bool = True,
        sample: Sample = Sample.UNKNOWN,
        confidence: float = CONFIDENCE,
    ) -> None:
        self.operator = operator
        self.names = tuple(names)
        self.calls = tuple(calls)
        self.accumulators: list[Accumulator] = []
        self.owners: list[int | None] = []
        for name, call, types in zip(names, calls, input_types, strict=True):
            accumulator = make_accumulator(call, types, operator, updating)
            if updating and not accumulator.retractable:
                raise PlanError(
                    f"operator {operator!r}: aggregate {name!r} ({call.function}) cannot take rows "
                    "back, but its input is a changelog; use an exact aggregate or an "
                    "append-only stream"
                )
            self.accumulators.append(accumulator)
            self.owners.append(self._owner(len(self.owners)) if sharing else len(self.owners))
        self.lanes = self._lanes()
        for members in self.lanes.values():
            for lane, index in enumerate(members):
                self.accumulators[index] = count_distinct(input_types[index][0], updating, len(members), lane)
        self.estimates: Estimates | None = None
        """The weighted part; None: results say nothing of rows that were shed."""
        if sample is not Sample.UNKNOWN:
            types = [accumulator.result_type for accumulator in self.accumulators]
            self.estimates = Estimates.of(calls, types, self.owners, sample, confidence)

    def columns(self) -> dict[str, ColumnSpec]:
        """Return the state columns for a `TableSpec`: ``rows``, then ``a0.`` ... of the first
        aggregate and so on.
        """
        columns: dict[str, ColumnSpec] = {ROWS: INTEGER}
        for index in self.distinct():
            prefix = _prefix(index)
            columns |= {prefix + name: spec for name, spec in self.accumulators[index].columns.items()}
        if self.estimates is not None:
            columns[WEIGHTED] = VectorColumn(self.estimates.width)
        return columns

    def fields(self) -> list[pa.Field]:
        """Return the result fields, in the order of the calls, without those that say how good they are."""
        pairs = zip(self.names, self.accumulators, strict=True)
        return [pa.field(name, accumulator.result_type) for name, accumulator in pairs]

    def bind(self, table: KeyedTable) -> "BoundAggregation":
        """Return the aggregates' face on a table that has `columns`."""
        return BoundAggregation(self, table)

    def distinct(self) -> list[int]:
        """Return the aggregates that have state of their own."""
        return [index for index, owner in enumerate(self.owners) if owner == index]

    def _owner(self, index: int) -> int | None:
        """Return whose state the aggregate reads: its own, an earlier one's, or None for the
        hidden row count.
        """
        call, family = self.calls[index], self.accumulators[index].family
        if call.function == "count" and not call.inputs and call.where is None:
            return None
        for earlier in range(index):
            if (
                family is not None
                and self.accumulators[earlier].family == family
                and self.owners[earlier] == earlier
                and _same_rows(self.calls[earlier], call, filters=family != DISTINCT)
                and self.owners.count(earlier) < MOST_LANES
            ):
                return earlier
        return index

    def _lanes(self) -> dict[int, list[int]]:
        """Return, by the aggregate that owns it, the aggregates that share a bag, in the order of its lanes."""
        lanes: dict[int, list[int]] = {}
        for index, owner in enumerate(self.owners):
            if owner is not None and self.accumulators[index].family == DISTINCT:
                lanes.setdefault(owner, []).append(index)
        return {owner: members for owner, members in lanes.items() if len(members) > 1}


class BoundAggregation:
    """The aggregates of one operator in one table. Arrays have one entry per row, lists one per
    aggregate.
    """

    def __init__(self, aggregation: Aggregation, table: KeyedTable) -> None:
        self._aggregation = aggregation
        self._table = table
        self._cells: list[Cells | None] = [
            None if owner is None else accumulator.cells(table, _prefix(owner))
            for accumulator, owner in zip(aggregation.accumulators, aggregation.owners, strict=True)
        ]
        self._weighted = None if aggregation.estimates is None else WeightedPart(aggregation.estimates, table)
        self._owned = [(index, cells) for index in aggregation.distinct() if (cells := self._cells[index]) is not None]

    def reset(self, slots: Slots) -> None:
        """Prepare fresh slots, each once, before rows are folded into them."""
        for _, cells in self._owned:
            cells.reset(slots)

    def update(
        self,
        rows: Rows,
        values: Sequence[Sequence[pa.Array]],
        where: Sequence[Mask | None],
    ) -> None:
        """Fold rows in; ``values[j]`` are the inputs of aggregate j, ``where[j]`` its filter (None:
        every row).

        Raises:
            UserError: a user-defined aggregate raised.
        """
        weighted: Collection[int] = ()
        if self._weighted is not None and not rows.are_exact:
            weighted = self._weighted.update(rows, values, where, self._table.array(ROWS))
        else:
            weights = NO_SIGNS if rows.weights is None else read_only(rows.weights)
            add_counts(read_only(rows.slots), weights, self._table.array(ROWS))
        for index, cells in self._owned:
            if index in weighted:
                continue
            with self._named(index):
                if isinstance(cells, CountDistinct) and index in self._aggregation.lanes:
                    filters = [where[member] for member in self._aggregation.lanes[index]]
                    cells.update_lanes(rows, values[index], filters)
                else:
                    cells.update(rows, values[index], where[index])

    def absorb(self, into: Slots, other: "BoundAggregation", slots: Slots) -> None:
        """Merge other's slots[i] into my into[i]; ``into`` may repeat, ``other`` may be this
        object.

        Raises:
            UserError: a user-defined aggregate raised.
        """
        counts = read_only(other.row_counts(slots))
        add_deltas(read_only(into), counts, self._table.array(ROWS))
        for (index, mine), (_, theirs) in zip(self._owned, other._owned, strict=True):
            with self._named(index):
                mine.absorb(into, theirs, slots)
        if self._weighted is not None and other._weighted is not None:
            self._weighted.absorb(into, other._weighted, slots)

    def scan(self, slots: Slots, places: Ints) -> None:
        """Let every slot absorb the slots of its run before it; see `Cells.scan`."""
        scan_counts(read_only(slots), read_only(places), self._table.array(ROWS))
        for index, cells in self._owned:
            with self._named(index):
                cells.scan(slots, places)
        if self._weighted is not None:
            self._weighted.scan(slots, places)

    def follow(
        self,
        rows: Rows,
        values: Sequence[Sequence[pa.Array]],
        where: Sequence[Mask | None],
    ) -> list[pa.Array]:
        """Fold rows in as `update` does and return every aggregate's result after each of them.

        No aggregate may share its state with another, so the aggregation was made without sharing.
        """
        results = []
        for index, cells in self._owned:
            with self._named(index):
                results.append(cells.follow(rows, values[index], where[index]))
        return results

    def row_counts(self, slots: Slots) -> Ints:
        """Return the sum of weights of each group; 0: empty, below 0: retractions came before
        their inserts.
        """
        counts: Ints = self._table.array(ROWS)[slots]
        return counts

    def results(self, slots: Slots) -> list[pa.Array]:
        """Return every aggregate's results for these slots, and behind them what says how good they are.

        Raises:
            NumericOverflowError: a result does not fit its type.
            UserError: a user-defined aggregate raised.
        """
        values = [partial(self._exact, index, slots) for index in range(len(self._cells))]
        if self._weighted is None:
            return [value() for value in values]
        return self._weighted.results(slots, values, self.row_counts, self._cells, self._named)

    def _exact(self, index: int, slots: Slots) -> pa.Array:
        """Return the results of one aggregate from its exact part."""
        cells = self._cells[index]
        if cells is None:
            return build(pa.int64(), np.maximum(self.row_counts(slots), 0))
        with self._named(index):
            return cells.result(slots)

    @contextmanager
    def _named(self, index: int) -> Iterator[None]:
        """Say in which operator and aggregate a number overflowed or a user's method raised."""
        call, name = self._aggregation.calls[index], self._aggregation.names[index]
        place = f"operator {self._aggregation.operator!r}: aggregate {name!r} ({call.function})"
        try:
            yield
        except NumericOverflowError as error:
            raise NumericOverflowError(f"{place}: {error}") from error
        except UserError as error:
            raise UserError(f"{place}: {error}") from error
        except Exception as error:
            if call.user is None:
                raise
            method = f"{type(call.user).__name__} raised {type(error).__name__}"
            raise UserError(f"{place}: {method}: {error}") from error


def _prefix(index: int) -> str:
    return f"a{index}."


def _same_rows(left: AggregateCall, right: AggregateCall, filters: bool) -> bool:
    """Return whether two calls see the same values, of the same rows if ``filters`` matter."""
    pairs: list[tuple[Expr | None, Expr | None]] = [*zip(left.inputs, right.inputs, strict=True)]
    if filters:
        pairs.append((left.where, right.where))
    return all(one is other if one is None or other is None else one.same_as(other) for one, other in pairs)
