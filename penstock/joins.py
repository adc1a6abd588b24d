"""What a join's result is called: keys, the columns of both sides, and the window."""

from collections.abc import Sequence

from penstock.model.errors import PlanError
from penstock.model.expressions import Expr, col, column_name
from penstock.model.job_graph import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Windowing

Column = str | Expr
Columns = Column | Sequence[Column] | None


def join_spec(
    left: StreamSchema,
    right: StreamSchema,
    on: Columns,
    left_on: Columns,
    right_on: Columns,
    windowing: Windowing | None,
    suffix: str,
) -> JoinSpec:
    """Name the result's columns.

    Raises:
        PlanError: the keys are not given, or not in pairs.
    """
    if on is not None and (left_on is not None or right_on is not None):
        raise PlanError("join() takes on=..., or left_on=... with right_on=..., not both")
    left_keys, right_keys = _keys(on if on is not None else left_on), _keys(on if on is not None else right_on)
    if len(left_keys) != len(right_keys) or not left_keys:
        raise PlanError(
            f"join() needs keys in pairs: got {len(left_keys)} on the left and {len(right_keys)} on the right; "
            "give on=..., or left_on=... and right_on=..."
        )
    pairs = zip(left_keys, right_keys, strict=True)
    shared = {column_name(ours) for ours, theirs in pairs if column_name(ours) == column_name(theirs)}
    names = set(left.fields.names)
    output = [(name, 0, name) for name in left.fields.names]
    for name in right.fields.names:
        if name in shared:
            continue
        result = name if name not in names else name + suffix
        if result in names:
            raise PlanError(f"join() would have two columns {result!r}; choose another suffix or rename one")
        names.add(result)
        output.append((result, 1, name))
    if windowing is not None and not names & {"window_start", "window_end"}:
        output += [("window_start", -1, "window_start"), ("window_end", -1, "window_end")]
    return JoinSpec(left_keys, right_keys, tuple(output), windowing)


def _keys(columns: Columns) -> tuple[Expr, ...]:
    if columns is None:
        return ()
    if isinstance(columns, str | Expr):
        columns = [columns]
    return tuple(col(item) if isinstance(item, str) else item for item in columns)
