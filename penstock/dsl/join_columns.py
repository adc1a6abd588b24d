"""Column names of a join's result: keys, the columns of both sides, and the window."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError, PlanError
from penstock.model.expressions import Expr, col, column_name
from penstock.model.join_specs import HOWS, VALIDATIONS, AsOfJoinSpec, IntervalJoinSpec, JoinSpec, LookupSpec, check_how
from penstock.model.lookup_tables import LookupTable
from penstock.model.schema import StreamSchema
from penstock.model.windows import Windowing

Column = str | Expr
Columns = Column | Sequence[Column] | None
Pair = tuple[tuple[Expr, ...], tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """Keys of a join as the user names them: the same of both sides, ``on``, or one list for each."""

    on: Columns = None
    left_on: Columns = None
    right_on: Columns = None


def join_spec(
    left: StreamSchema,
    right: StreamSchema,
    match: KeyMatch,
    windowing: Windowing | None,
    suffix: str,
    how: str = "inner",
    validate: str = "m:m",
) -> JoinSpec:
    """Name the result's columns.

    Raises:
        PlanError: the keys are not given, or not in pairs; a side whose keys come once is in no plain inner join.
        OptionError: ``how`` or ``validate`` is none.
    """
    check_how(how, HOWS if windowing is None else ("inner",), "join")
    if validate not in VALIDATIONS:
        raise OptionError(f"join(validate=...) is one of {', '.join(VALIDATIONS)}, not {validate!r}")
    if validate != "m:m" and (how != "inner" or windowing is not None or left.changelog or right.changelog):
        raise PlanError(
            f"join(validate={validate!r}) needs an inner join of append-only streams without a window; leave it out"
        )
    keys = _pair("join", match)
    output = _output("join", left.fields, right.fields, keys, suffix, how)
    if windowing is not None and not {name for name, _, _ in output} & {"window_start", "window_end"}:
        output += [("window_start", -1, "window_start"), ("window_end", -1, "window_end")]
    return JoinSpec(*keys, tuple(output), windowing, how, validate)


def interval_join_spec(
    left: StreamSchema,
    right: StreamSchema,
    match: KeyMatch,
    between: tuple[Duration, Duration | Expr],
    suffix: str,
    how: str,
) -> IntervalJoinSpec:
    """Read the bounds and name the result's columns.

    Raises:
        PlanError: the keys are not given, or not in pairs.
        OptionError: the bounds are no pair of durations, or in the wrong order.
    """
    check_how(how, HOWS, "interval_join")
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise OptionError(f"interval_join(between=...) is a pair such as ('-5m', '10m'), not {between!r}")
    lower_us = _signed("the lower bound of between", between[0])
    upper = between[1] if isinstance(between[1], Expr) else _signed("the upper bound of between", between[1])
    if isinstance(upper, int) and upper < lower_us:
        raise OptionError(f"interval_join(between=...) begins after it ends: {between!r}")
    keys = _pair("interval_join", match)
    output = _output("interval_join", left.fields, right.fields, keys, suffix, how)
    return IntervalJoinSpec(*keys, tuple(output), lower_us, upper, how)


def asof_join_spec(
    left: StreamSchema,
    right: StreamSchema,
    match: KeyMatch,
    tolerance: Duration | None,
    suffix: str,
    how: str,
) -> AsOfJoinSpec:
    """Read the tolerance and name the result's columns.

    Raises:
        PlanError: the keys are not given, or not in pairs.
        OptionError: the tolerance is no duration.
    """
    check_how(how, ("left", "inner"), "asof_join")
    tolerance_us = None if tolerance is None else to_microseconds(tolerance, "tolerance")
    keys = _pair("asof_join", match)
    output = _output("asof_join", left.fields, right.fields, keys, suffix, how)
    return AsOfJoinSpec(*keys, tuple(output), tolerance_us, how)


def lookup_spec(
    left: StreamSchema,
    table: LookupTable,
    match: KeyMatch,
    suffix: str,
    how: str,
) -> LookupSpec:
    """Name the result's columns.

    Raises:
        PlanError: the keys are not given, not in pairs, or no columns of the table.
    """
    check_how(how, ("inner", "left"), "lookup")
    keys = _pair("lookup", match)
    names = [column_name(key) for key in keys[1]]
    columns = table.schema.names
    for key, name in zip(keys[1], names, strict=True):
        if name not in columns:
            raise PlanError(f"lookup() matches columns of the table ({', '.join(columns)}), not {key!r}")
    output = _output("lookup", left.fields, table.schema, keys, suffix, how)
    return LookupSpec(keys[0], table, tuple(str(name) for name in names), tuple(output), how)


def _pair(verb: str, match: KeyMatch) -> Pair:
    on, left_on, right_on = match.on, match.left_on, match.right_on
    if on is not None and (left_on is not None or right_on is not None):
        raise PlanError(f"{verb}() takes on=..., or left_on=... with right_on=..., not both")
    left_keys, right_keys = (_keys(verb, side if on is None else on) for side in (left_on, right_on))
    if len(left_keys) != len(right_keys) or not left_keys:
        raise PlanError(
            f"{verb}() needs keys in pairs: got {len(left_keys)} on the left and {len(right_keys)} on the right; "
            "give on=..., or left_on=... and right_on=..."
        )
    return left_keys, right_keys


def _output(
    verb: str, left: pa.Schema, right: pa.Schema, keys: Pair, suffix: str, how: str
) -> list[tuple[str, int, str]]:
    # A row that only the right side has shows its key nowhere but in the right side's columns.
    both = how in ("inner", "left")
    names = zip(map(column_name, keys[0]), map(column_name, keys[1]), strict=True)
    shared = {left_name for left_name, right_name in names if left_name == right_name and both}
    taken = set(left.names)
    output = [(name, 0, name) for name in left.names]
    for name in right.names:
        if name in shared:
            continue
        result = name if name not in taken else name + suffix
        if result in taken:
            raise PlanError(f"{verb}() would have two columns {result!r}; choose another suffix or rename one")
        taken.add(result)
        output.append((result, 1, name))
    return output


def _signed(what: str, duration: Duration) -> int:
    """Return a duration that may be negative, in microseconds."""
    if isinstance(duration, str) and duration.strip().startswith("-"):
        return -to_microseconds(duration.strip()[1:], what)
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if isinstance(duration, int | float) and duration < 0:
        return -to_microseconds(-duration, what)
    return to_microseconds(duration, what)


def _keys(verb: str, columns: Columns) -> tuple[Expr, ...]:
    if columns is None:
        return ()
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = [columns]
    for item in columns:
        if not isinstance(item, str | Expr):
            raise PlanError(f"{verb}() matches columns and expressions, not {item!r}")
    return tuple(col(item) if isinstance(item, str) else item for item in columns)
