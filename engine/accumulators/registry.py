"""From an `AggregateCall` and the types of its inputs to the accumulator that computes it;
called by `Aggregation`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.accumulators.bags import collect, count_distinct
from penstock.engine.accumulators.cells import Accumulator
from penstock.engine.accumulators.counting import count
from penstock.engine.accumulators.extremes import BestOrder, best
from penstock.engine.accumulators.extremes_updating import best_updating
from penstock.engine.accumulators.floats import float_mean, float_sum
from penstock.engine.accumulators.ordering import SortColumn, is_ordered
from penstock.engine.accumulators.sketches import LG_K, approx_count_distinct, approx_quantile
from penstock.engine.accumulators.spread import variance
from penstock.engine.accumulators.sums import decimal_mean, decimal_sum, integer_mean, integer_sum
from penstock.engine.accumulators.user import user_defined
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import ExpressionError, PlanError, SchemaError
from penstock.model.installation import extra_install_command

Types = Sequence[pa.DataType]
Options = Mapping[str, Any]


def make_accumulator(
    call: AggregateCall, input_types: Sequence[pa.DataType], operator: str, updating: bool = False
) -> Accumulator:
    """Return the accumulator of a call; ``updating`` chooses the variant for changelogs where there
    are two.

    It is not `retractable` where no variant can retract. Result types: int64 of integers and
    counts, decimal(38, s) of summed decimals, double of floating-point sums and of every mean,
    variance and standard deviation (also of decimals), the input's own type otherwise; a list for
    collect.

    Raises:
        ExpressionError: the aggregate does not take these inputs.
        PlanError: no such aggregate, a wrong option, or a library is missing.
    """
    where = f"operator {operator!r}: {call.function}"
    if call.function == "user":
        return _user(call, where)
    function = _FUNCTIONS.get(call.function)
    if function is None:
        raise PlanError(
            f"operator {operator!r}: there is no aggregate {call.function!r}; one of {', '.join(_FUNCTIONS)}"
        )
    if not function.fewest <= len(input_types) <= function.most:
        takes = {
            (0, 1): "at most one input",
            (1, 1): "one input",
            (2, 2): "a value and what to compare by",
        }
        raise ExpressionError(f"{where} takes {takes[function.fewest, function.most]}, not {len(input_types)} inputs")
    for position, kind in enumerate(input_types):
        if not function.accepts(kind):
            is_input = position < len(call.inputs)
            refused = (
                f"of {call.inputs[position].name!r} ({kind}) is not defined" if is_input else f"does not take {kind}"
            )
            raise ExpressionError(f"{where} {refused}; it takes {function.takes}, so cast the input first")
    options = _checked_options(call, function, where)
    try:
        return function.build(input_types, options, updating)
    except ImportError as error:
        raise PlanError(f"{where} needs the library datasketches: {extra_install_command('sketches')}") from error


def _number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal128(kind))


def _summable(kind: pa.DataType) -> bool:
    return _number(kind) or bool(pt.is_duration(kind))


def _anything(kind: pa.DataType) -> bool:
    return True


def _sum(types: Types, options: Options, updating: bool) -> Accumulator:
    kind = types[0]
    if pt.is_floating(kind):
        return float_sum(updating)
    return decimal_sum(kind) if pt.is_decimal(kind) else integer_sum(kind)


def _mean(types: Types, options: Options, updating: bool) -> Accumulator:
    kind = types[0]
    if pt.is_floating(kind):
        return float_mean(updating)
    return decimal_mean(kind) if pt.is_decimal(kind) else integer_mean()


def _first_by(*parts: tuple[int | None, bool]) -> "_Build":
    """Build the aggregate of the row that comes first by inputs (None: the event time); the last is the answer.

    With each comes whether it descends.
    """

    def build(types: Types, options: Options, updating: bool) -> Accumulator:
        kinds = [pa.int64() if source is None else types[source] for source, _ in parts]
        columns = [SortColumn(kind, descending) for kind, (_, descending) in zip(kinds, parts, strict=True)]
        order = BestOrder(columns, [source for source, _ in parts])
        return best_updating(order) if updating else best(order)

    return build


def _user(call: AggregateCall, where: str) -> Accumulator:
    if call.user is None:
        raise PlanError(f"{where} needs a UserAggregate instance")
    try:
        return user_defined(call.user)
    except (SchemaError, TypeError, AttributeError) as error:
        name = type(call.user).__name__
        raise PlanError(f"{where} {name} must declare numpy dtypes in `state` and a result_type: {error}") from error


def _checked_options(call: AggregateCall, function: "_Function", where: str) -> dict[str, Any]:
    """Return every option of the function, with defaults filled in."""
    options = {option.name: option.default for option in function.options}
    unknown = sorted(set(call.options) - set(options))
    if unknown:
        raise PlanError(f"{where} has no option {unknown[0]!r}" + (f"; it has {', '.join(options)}" if options else ""))
    options |= call.options
    for option in function.options:
        value = options[option.name]
        number = isinstance(value, option.kinds) and not isinstance(value, bool)
        if not number or not option.least <= value <= option.greatest:
            raise PlanError(f"{where} needs {option.name} between {option.least} and {option.greatest}, not {value!r}")
    return options


_Build = Callable[[Types, Options, bool], Accumulator]


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    default: Any
    least: float
    greatest: float
    kinds: tuple[type, ...] = (int,)


@dataclass(frozen=True, slots=True)
class _Function:
    """The inputs of one aggregate and its constructor."""

    build: _Build
    accepts: Callable[[pa.DataType], bool] = is_ordered
    takes: str = "numbers, decimals of 128 bits, booleans, dates, times, strings and binaries"
    fewest: int = 1
    most: int = 1
    options: tuple[_Option, ...] = ()


_NUMBERS = "integers, floating-point numbers and decimals of 128 bits"

_FUNCTIONS: dict[str, _Function] = {
    "count": _Function(lambda types, options, updating: count(), _anything, "anything", fewest=0),
    "sum": _Function(_sum, _summable, "integers, floating-point numbers, decimals of 128 bits and durations"),
    "min": _Function(_first_by((0, False))),
    "max": _Function(_first_by((0, True))),
    "mean": _Function(_mean, _number, _NUMBERS),
    "variance": _Function(lambda types, options, updating: variance(root=False), _number, _NUMBERS),
    "stddev": _Function(lambda types, options, updating: variance(root=True), _number, _NUMBERS),
    "first": _Function(_first_by((None, False), (0, False))),
    "last": _Function(_first_by((None, True), (0, True))),
    "arg_min": _Function(_first_by((1, False), (0, False)), fewest=2, most=2),
    "arg_max": _Function(_first_by((1, True), (0, False)), fewest=2, most=2),
    "count_distinct": _Function(lambda types, options, updating: count_distinct(types[0], updating)),
    "approx_count_distinct": _Function(
        lambda types, options, updating: approx_count_distinct(types[0], options["lg_k"]),
        options=(_Option("lg_k", LG_K, 7, 21),),
    ),
    "approx_quantile": _Function(
        lambda types, options, updating: approx_quantile(float(options["q"]), options["k"]),
        _number,
        _NUMBERS,
        options=(_Option("q", None, 0, 1, (int, float)), _Option("k", 200, 8, 65535)),
    ),
    "collect": _Function(lambda types, options, updating: collect(types[0])),
}
