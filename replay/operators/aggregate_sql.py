"""Aggregates as Spark SQL with Penstock's meaning: exact sums, samples' variances, ties decided by values.

Called by the grouped and the running aggregates of a replay. What the stream approximates is exact here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.compiler import infer_type
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Expr
from penstock.replay.operators.prepared import AT, quoted

BY_TIME = ("first", "last")
"""The aggregates that look at event times."""


@dataclass(frozen=True)
class PreparedCall:
    """An aggregate whose inputs and filter have been computed into columns."""

    name: str
    call: AggregateCall
    values: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    where: str | None


@dataclass(frozen=True)
class PreparedCalls:
    """The aggregates of an operator, and the columns that they need computed, each once."""

    columns: tuple[tuple[str, Expr], ...]
    calls: tuple[PreparedCall, ...]

    @property
    def timed(self) -> bool:
        """True if some look at event times."""
        return any(call.call.function in BY_TIME for call in self.calls)


def prepared_calls(aggregates: Sequence[tuple[str, AggregateCall]], fields: pa.Schema, operator: str) -> PreparedCalls:
    """Name the columns that aggregates need."""
    columns: list[tuple[str, Expr]] = []

    def place(expression: Expr) -> str:
        for name, other in columns:
            if other.same_as(expression):
                return name
        columns.append((f"$v{len(columns)}", expression))
        return columns[-1][0]

    calls = tuple(
        PreparedCall(
            name,
            call,
            tuple(place(value) for value in call.inputs),
            tuple(infer_type(value, fields, operator) for value in call.inputs),
            None if call.where is None else place(call.where),
        )
        for name, call in aggregates
    )
    return PreparedCalls(tuple(columns), calls)


def aggregate_sql(prepared: PreparedCall, over: str = "") -> str:
    """Return an aggregate over the rows of a group, or with ``over``, an OVER clause, over those of a frame."""
    return _Writer(prepared, f" {over}" if over else "").write()


class _Writer:
    """Writes one aggregate; a value that does not count, by its filter, is null."""

    def __init__(self, prepared: PreparedCall, over: str) -> None:
        self._call = prepared.call
        self._kinds = prepared.kinds
        self._where = None if prepared.where is None else quoted(prepared.where)
        self._values = [quoted(name) for name in prepared.values]
        self._over = over

    def write(self) -> str:
        match self._call.function:
            case "count":
                conditions = [f"{value} IS NOT NULL" for value in self._values]
                return self._agg("count", self._kept("1", *conditions))
            case "sum":
                return self._sum()
            case "mean":
                return self._mean()
            case "min" | "max" as function:
                return self._agg(function, self._value())
            case "variance":
                return self._spread("var_samp")
            case "stddev":
                return self._spread("stddev_samp")
            case "first":
                return self._best("min", quoted(AT), self._values[0])
            case "last":
                return self._best("max", quoted(AT), self._values[0])
            case "arg_min":
                return self._best("min", self._values[1], self._values[0])
            case "arg_max":
                return self._best("min", descending_sql(self._values[1], self._kinds[1]), self._values[0])
            case "count_distinct" | "approx_count_distinct":
                return self._distinct()
            case "approx_quantile":
                return self._quantile()
            case "collect":
                return self._collect()
        raise AssertionError(self._call.function)

    def _agg(self, function: str, argument: str) -> str:
        return f"{function}({argument}){self._over}"

    def _kept(self, value: str, *more: str) -> str:
        conditions = [*([] if self._where is None else [self._where]), *more]
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value

    def _value(self) -> str:
        return self._kept(self._values[0])

    def _double(self) -> str:
        return f"CAST({self._value()} AS DOUBLE)"

    def _sum(self) -> str:
        kind = self._kinds[0]
        if pt.is_floating(kind):
            return self._agg("sum", self._double())
        return self._exact_sum()

    def _exact_sum(self) -> str:
        """Sum so that no part overflows if the whole does not: 64-bit integers by their halves."""
        kind, value = self._kinds[0], self._value()
        if pt.is_decimal(kind) or pt.is_uint64(kind) or pt.is_duration(kind):
            return self._agg("sum", value)
        if not pt.is_int64(kind):
            return self._agg("sum", f"CAST({value} AS BIGINT)")
        high = self._agg("sum", f"shiftright({value}, 32)")
        low = self._agg("sum", f"({value}) & 4294967295L")
        return f"(CAST({high} AS DECIMAL(38, 0)) * 4294967296BD + {low})"

    def _mean(self) -> str:
        if pt.is_floating(self._kinds[0]):
            return self._agg("avg", self._double())
        return f"(CAST({self._exact_sum()} AS DOUBLE) / nullif({self._agg('count', self._value())}, 0))"

    def _spread(self, function: str) -> str:
        value = self._double()
        odd = f"{self._agg('max', f'abs({value})')} > 1e140"
        fewer = f"{self._agg('count', value)} < 2"
        spread = self._agg(function, f"CASE WHEN abs({value}) <= 1e140 THEN {value} END")
        return f"CASE WHEN {fewer} THEN NULL WHEN {odd} THEN double('NaN') ELSE {spread} END"

    def _best(self, function: str, by: str, value: str) -> str:
        conditions = [f"{name} IS NOT NULL" for name in self._values]
        pair = self._kept(f"named_struct('by', {by}, 'value', {value})", *conditions)
        return f"{self._agg(function, pair)}.value"

    def _distinct(self) -> str:
        if not self._over:
            return f"count(DISTINCT {self._value()})"
        # A set tells zeros and NaNs apart by their bits.
        value = self._value()
        if pt.is_floating(self._kinds[0]):
            value = f"CASE WHEN isnan({value}) THEN double('NaN') ELSE {value} + 0.0D END"
        return f"size({self._agg('collect_set', value)})"

    def _quantile(self) -> str:
        q = float(self._call.options["q"])
        value = f"CASE WHEN NOT isnan({self._double()}) THEN {self._double()} END"
        if not self._over:
            return f"percentile_disc({q!r}D) WITHIN GROUP (ORDER BY {value})"
        place = f"CAST(greatest(ceil({q!r}D * {self._agg('count', value)}), 1) AS INT)"
        return f"try_element_at(sort_array({self._agg('collect_list', value)}), {place})"

    def _collect(self) -> str:
        value = self._values[0]
        entry = self._kept(f"named_struct('absent', {value} IS NULL, 'value', {value})")
        entries = f"sort_array({self._agg('collect_list', entry)})"
        return f"CASE WHEN size({entries}) > 0 THEN transform({entries}, entry -> entry.value) END"


def descending_sql(value: str, kind: pa.DataType) -> str:
    """Return what sorts ascending as values sort descending; NaN, the greatest, comes first."""
    if pt.is_floating(kind):
        return f"named_struct('number', NOT isnan({value}), 'minus', -{value})"
    if pt.is_decimal(kind) or pt.is_uint64(kind) or pt.is_duration(kind):
        return f"(-{value})"
    if pt.is_integer(kind):
        return f"(~{value})"
    if pt.is_boolean(kind):
        return f"(NOT {value})"
    if pt.is_timestamp(kind):
        return f"(~unix_micros(CAST({value} AS TIMESTAMP)))"
    if pt.is_time(kind):
        return f"(TIME '00:00:00' - {value})"
    if pt.is_date(kind):
        return f"(~unix_date({value}))"
    # Digits turned round; a text that goes on where another ends comes before it.
    return f"concat(translate(hex({value}), '0123456789ABCDEF', 'FEDCBA9876543210'), '~')"
