"""Compares two tables as multisets of rows and says how they differ.

Called by tests that hold a result against the oracle; imported through ``oracle.py``.
"""

import math
from typing import Any

import duckdb
import pyarrow as pa

_RELATIVE = 1e-9
_SHOWN = 5


def assert_same_rows(actual: pa.Table, expected: pa.Table) -> None:
    """Both tables have the same columns, in order, and the same rows, each as often.

    Floats agree to 1e-9 relative (NaN equals itself), everything else exactly, nulls included.
    Layouts of text, units of timestamps and widths of decimals do not matter; widths of integers
    and scales of decimals do. Raises ``AssertionError`` with the first rows that differ.
    """
    assert actual.column_names == expected.column_names, (
        f"columns are {actual.column_names}, expected {expected.column_names}"
    )
    schema = pa.schema([(field.name, _logical(field.type)) for field in expected.schema])
    for mine, wanted in zip(actual.schema, schema, strict=True):
        assert _logical(mine.type) == wanted.type, (
            f"column {mine.name} is {mine.type}, expected {expected.schema.field(mine.name).type}"
        )
    unexpected, missing = _difference(actual.cast(schema), expected.cast(schema))
    if any(pa.types.is_floating(field.type) for field in schema):
        unexpected, missing = _beyond_tolerance(unexpected, missing, schema)
    if unexpected or missing:
        raise AssertionError(
            f"{actual.num_rows:,} rows, expected {expected.num_rows:,}: "
            + _listing("unexpected", unexpected)
            + _listing("missing", missing)
        )


Row = dict[str, Any]


def _logical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _logical(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return kind


def _difference(actual: pa.Table, expected: pa.Table) -> tuple[list[Row], list[Row]]:
    """Rows that one side has more often, as often as it has them more."""
    if not actual.num_columns:
        surplus = actual.num_rows - expected.num_rows
        return [{}] * surplus, [{}] * -surplus
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in expected.column_names)
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("actual", actual)
        con.register("expected", expected)
        # Hashes first: rows are wide, and two sets of rows that differ have different hashes.
        con.execute(
            'CREATE TABLE suspects AS SELECT "#hash" FROM ('
            f'SELECT hash({names}) AS "#hash", 1 AS "#sign" FROM actual '
            f"UNION ALL SELECT hash({names}), -1 FROM expected"
            ') GROUP BY "#hash" HAVING sum("#sign") <> 0'
        )
        if con.sql("SELECT count(*) FROM suspects").fetchall() == [(0,)]:
            return [], []
        rows = (
            con.sql(
                f'SELECT {names}, sum("#sign") AS "#surplus" FROM ('
                'SELECT *, 1 AS "#sign" FROM actual UNION ALL SELECT *, -1 FROM expected'
                f') WHERE hash({names}) IN (SELECT "#hash" FROM suspects) '
                f'GROUP BY {names} HAVING "#surplus" <> 0'
            )
            .to_arrow_table()
            .to_pylist()
        )
    unexpected: list[Row] = []
    missing: list[Row] = []
    for row in rows:
        surplus = int(row.pop("#surplus"))
        (unexpected if surplus > 0 else missing).extend([row] * abs(surplus))
    return unexpected, missing


def _beyond_tolerance(unexpected: list[Row], missing: list[Row], schema: pa.Schema) -> tuple[list[Row], list[Row]]:
    """What is left when rows with equal exact columns are paired in the order of their floats."""
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    exact = [name for name in schema.names if name not in floats]

    def groups(rows: list[Row]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(repr([row[name] for name in exact]), []).append(row)
        for group in found.values():
            group.sort(key=lambda row: [_float_order(row[name]) for name in floats])
        return found

    ours, theirs = groups(unexpected), groups(missing)
    left: tuple[list[Row], list[Row]] = ([], [])
    for key in {**ours, **theirs}:
        mine, wanted = ours.get(key, []), theirs.get(key, [])
        close = len(mine) == len(wanted) and all(
            _is_close(a[name], b[name]) for a, b in zip(mine, wanted, strict=True) for name in floats
        )
        if not close:
            left[0].extend(mine)
            left[1].extend(wanted)
    return left


def _float_order(value: float | None) -> tuple[bool, bool, float]:
    if value is None or math.isnan(value):
        return value is None, True, 0.0
    return False, False, value


def _is_close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=_RELATIVE) or (math.isnan(a) and math.isnan(b))


def _listing(title: str, rows: list[Row]) -> str:
    more = f"\n  ... and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    lines = "".join(f"\n  {row}" for row in sorted(map(str, rows))[:_SHOWN])
    return f"\n{len(rows):,} {title}{lines}{more}" if rows else ""
