"""Expressions as DuckDB SQL with Penstock's meaning (docs/design/expressions.md 2): the oracle of the property tests.

Where DuckDB means something else the text is wrapped: float division and division by zero, truncation, casts to
integers, missing parts and matches, integers narrower than 64 bits.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from penstock.model import literals
from penstock.model.errors import ExpressionError
from penstock.model.expression_trees import sql_text
from penstock.model.expression_types import Resolver
from penstock.model.expressions import Expr
from penstock.model.functions import format_pieces, truncation
from penstock.model.type_names import from_sql_type


def to_sql(expression: Expr, dialect: str = "duckdb", schema: pa.Schema | None = None) -> str:
    """Return the text of an expression (without its alias).

    With the schema of its columns the meaning is exact. Without it arithmetic on integers narrower than 64 bits, on
    decimals with ``//``, and casts from text and fractions keep DuckDB's own meaning.

    Raises:
        ExpressionError: another dialect, ``hash``, which DuckDB cannot compute, or an expression that does not fit the
            schema.
    """
    if dialect != "duckdb":
        raise ExpressionError(f"{dialect!r} is not a dialect to write expressions in: there is 'duckdb'.")
    types: Mapping[int, pa.DataType] = {}
    if schema is not None:
        resolver = Resolver(schema, "to_sql")
        resolver.resolve(expression.tree)
        types = resolver.types
    return _Writer(types).write(expression.tree)


class _Writer:
    """Writes nodes of one tree; ``types`` are those of its nodes by id, empty if unknown."""

    def __init__(self, types: Mapping[int, pa.DataType]) -> None:
        self._types = types

    def write(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Paren | exp.Alias):
            return self.write(node.this)
        constant = literals.to_scalar(node)
        if constant is not None:
            return _constant(constant)
        if isinstance(node, exp.Column):
            return '"' + node.name.replace('"', '""') + '"'
        if isinstance(node, exp.Anonymous):
            return self._call(node)
        if type(node) in _BINARY:
            return self._binary(node)
        return self._fixed(node, _WRITERS[type(node)](self, node))

    def _fixed(self, node: exp.Expr, text: str) -> str:
        """Cast a result whose width or scale DuckDB chooses differently to our type."""
        kind = self._kind(node)
        if kind is None or not (pt.is_decimal(kind) or (pt.is_integer(kind) and type(node) in _UNITING)):
            return text
        return f"CAST({text} AS {_type_name(kind)})"

    def _kind(self, node: exp.Expr) -> pa.DataType | None:
        while isinstance(node, exp.Paren | exp.Alias):
            node = node.this
        return self._types.get(id(node))

    def _binary(self, node: exp.Expr) -> str:
        left, right = self._numbers(node, node.this, node.expression)
        kind = self._kind(node.this)
        if isinstance(node, exp.Mul) and kind is not None and pt.is_decimal(kind):
            # A product of decimals of up to 18 digits overflows 64 bits in DuckDB.
            left = f"CAST({left} AS DECIMAL({max(kind.precision, 19)}, {kind.scale}))"
        return self._fixed(node, f"({left} {_BINARY[type(node)]} {right})")

    def _numbers(self, node: exp.Expr, *sides: exp.Expr) -> list[str]:
        """Write operands so that DuckDB computes in our types: doubles, or integers of 64 bits."""
        kinds = [self._kind(side) for side in sides]
        texts = [self.write(side) for side in sides]
        known = [kind for kind in kinds if kind is not None]
        if any(pt.is_floating(kind) for kind in known):
            return [f"CAST({text} AS DOUBLE)" for text in texts]
        if known and all(pt.is_integer(kind) for kind in known) and type(node) not in _COMPARES:
            return [f"CAST({text} AS BIGINT)" for text in texts]
        return texts

    def _divided(self, node: exp.Expr) -> str:
        left, right = self.write(node.this), self.write(node.expression)
        return f"(CAST({left} AS DOUBLE) / NULLIF(CAST({right} AS DOUBLE), 0))"

    def _quotient(self, node: exp.Expr) -> str:
        left, right = self._numbers(node, node.this, node.expression)
        kinds = [self._kind(node.this), self._kind(node.expression)]
        if any(kind is not None and pt.is_floating(kind) for kind in kinds):
            return f"trunc({left} / NULLIF({right}, 0))"
        if any(kind is not None and pt.is_decimal(kind) for kind in kinds):
            # Without its remainder the division is exact, whatever type DuckDB divides in.
            whole = f"({left} - ({left} % NULLIF({right}, 0)))"
            return f"CAST(round(CAST({whole} AS DOUBLE) / NULLIF({right}, 0)) AS BIGINT)"
        return f"({left} // NULLIF({right}, 0))"

    def _remainder(self, node: exp.Expr) -> str:
        left, right = self._numbers(node, node.this, node.expression)
        return f"({left} % NULLIF({right}, 0))"

    def _negated(self, node: exp.Expr) -> str:
        return f"(-({self._numbers(node, node.this)[0]}))"

    def _not(self, node: exp.Expr) -> str:
        return f"(NOT {self.write(node.this)})"

    def _is(self, node: exp.Expr) -> str:
        if isinstance(node.expression, exp.Null):
            return f"({self.write(node.this)} IS NULL)"
        return f"({self.write(node.this)} IS NOT DISTINCT FROM {self.write(node.expression)})"

    def _in(self, node: exp.Expr) -> str:
        if not node.expressions:
            return "FALSE"
        return "(" + " OR ".join(self._comparison("=", node.this, item) for item in node.expressions) + ")"

    def _between(self, node: exp.Expr) -> str:
        low = self._comparison(">=", node.this, node.args["low"])
        high = self._comparison("<=", node.this, node.args["high"])
        return f"({low} AND {high})"

    def _comparison(self, sign: str, left: exp.Expr, right: exp.Expr) -> str:
        texts = self._numbers(exp.EQ(), left, right)
        return f"({texts[0]} {sign} {texts[1]})"

    def _case(self, node: exp.Expr) -> str:
        branches = node.args.get("ifs") or [node]
        text = "CASE"
        for branch in branches:
            if isinstance(node, exp.Case) and node.this:
                condition = self._comparison("=", node.this, branch.this)
            else:
                condition = self.write(branch.this)
            text += f" WHEN {condition} THEN {self.write(branch.args['true'])}"
        default = node.args.get("default") or node.args.get("false")
        return text + (f" ELSE {self.write(default)}" if default else "") + " END"

    def _coalesce(self, node: exp.Expr) -> str:
        return f"COALESCE({', '.join(self.write(part) for part in (node.this, *node.expressions))})"

    def _nullif(self, node: exp.Expr) -> str:
        equal = self._comparison("=", node.this, node.expression)
        return f"CASE WHEN {equal} THEN NULL ELSE {self.write(node.this)} END"

    def _cast(self, node: exp.Expr) -> str:
        word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        target = from_sql_type(node.args["to"])
        source, text = self._kind(node.this), self.write(node.this)
        if source is None or target is None:
            return f"{word}({text} AS {node.args['to'].sql(dialect='duckdb')})"
        name = _type_name(target)
        if pt.is_integer(target) and (pt.is_floating(source) or pt.is_decimal(source)):
            return f"{word}(trunc({text}) AS {name})"
        if pt.is_string(source) and (pt.is_integer(target) or pt.is_boolean(target)):
            pattern = "[+-]?[0-9]+" if pt.is_integer(target) else "(?i)(true|false|0|1)"
            checked = f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {text} ELSE '?' END"
            guarded = f"CASE WHEN {text} IS NOT NULL THEN {checked} END"
            return f"{word}({guarded} AS {name})"
        if pt.is_integer(source) and pt.is_timestamp(target):
            return f"CAST({_EPOCHS[target.unit].format(text)} AS {name})"
        if pt.is_timestamp(source) and pt.is_string(target):
            return f"strftime({text}, '%Y-%m-%d %H:%M:%S{_FRACTIONS[source.unit]}')"
        return f"{word}({text} AS {name})"

    def _call(self, node: exp.Expr) -> str:
        name = str(node.name).lower()
        if name == "hash":
            raise ExpressionError(f"{sql_text(node)} has no DuckDB text: the hash is Penstock's own.")
        subject, *others = node.expressions
        text = self.write(subject)
        options = [literals.to_scalar(option) for option in others]
        values = [None if option is None else option.as_py() for option in options]
        if name == "concat":
            return "(" + " || ".join(self.write(part) for part in node.expressions) + ")"
        if name == "power":
            return f"power(CAST({text} AS DOUBLE), CAST({self.write(others[0])} AS DOUBLE))"
        if name in ("sqrt", "exp", "ln"):
            return f"{name}(CAST({text} AS DOUBLE))"
        if name in ("abs", "sign", "round", "floor", "ceil") and self._kind(subject) is not None:
            text = self._numbers(node, subject)[0]
        if name in _TEMPLATES:
            return _TEMPLATES[name](text, *values)
        return f"{name}({', '.join([text, *[_quoted(value) for value in values]])})"


_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.And: "AND",
    exp.Or: "OR",
}
_COMPARES = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.And, exp.Or)
_WRITERS: dict[type[exp.Expr], Callable[[_Writer, exp.Expr], str]] = {
    exp.Div: _Writer._divided,
    exp.IntDiv: _Writer._quotient,
    exp.Mod: _Writer._remainder,
    exp.Neg: _Writer._negated,
    exp.Not: _Writer._not,
    exp.Is: _Writer._is,
    exp.In: _Writer._in,
    exp.Between: _Writer._between,
    exp.Case: _Writer._case,
    exp.If: _Writer._case,
    exp.Coalesce: _Writer._coalesce,
    exp.Nullif: _Writer._nullif,
    exp.Cast: _Writer._cast,
    exp.TryCast: _Writer._cast,
}
_UNITING = (exp.Case, exp.If, exp.Coalesce)
_EPOCHS = {
    "s": "make_timestamp({} * 1000000)",
    "ms": "make_timestamp({} * 1000)",
    "us": "make_timestamp({})",
    "ns": "make_timestamp_ns({})",
}
_FRACTIONS = {"s": "", "ms": ".%g", "us": ".%f", "ns": ".%n"}
_NAMES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
}
_TIMES = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def _type_name(kind: pa.DataType) -> str:
    if pt.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else _TIMES[kind.unit]
    return _NAMES[kind]


def _constant(scalar: pa.Scalar) -> str:
    kind = scalar.type
    if not scalar.is_valid:
        return "NULL"
    if pt.is_duration(kind):
        return f"to_microseconds({scalar.cast(pa.duration('us')).value})"
    if pt.is_floating(kind):
        return f"CAST('{scalar.as_py()!r}' AS DOUBLE)"
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return f"CAST('{scalar.as_py()}' AS {_type_name(kind)})"
    if pt.is_decimal(kind):
        return f"CAST('{scalar.as_py():f}' AS {_type_name(kind)})"
    if pt.is_binary(kind):
        return "CAST('" + "".join(f"\\x{byte:02x}" for byte in scalar.as_py()) + "' AS BLOB)"
    if pt.is_temporal(kind):
        return f"CAST('{scalar.cast(pa.string()).as_py()}' AS {_type_name(kind)})"
    return _quoted(scalar.as_py())


def _quoted(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _substring(text: str, start: int, length: int | None = None) -> str:
    return f"substring({text}, {start})" if length is None else f"substring({text}, {start}, {length})"


def _extract(text: str, pattern: str, group: int = 0) -> str:
    quoted = _quoted(pattern)
    return f"CASE WHEN regexp_matches({text}, {quoted}) THEN regexp_extract({text}, {quoted}, {group}) END"


def _count(text: str, character: str) -> str:
    return f"(length({text}) - length(replace({text}, {_quoted(character)}, '')))"


def _truncated(text: str, unit: str) -> str:
    interval = truncation(unit)
    if isinstance(interval, str):
        return f"date_trunc('{interval}', {text})"
    return f"time_bucket(to_microseconds({interval}), CAST({text} AS TIMESTAMP), TIMESTAMP '1970-01-01')"


def _formatted(text: str, pattern: str) -> str:
    plain = "".join(
        f"%{letter}" if letter else between.replace("%", "%%") for letter, between in format_pieces(pattern)
    )
    return f"strftime({text}, {_quoted(plain)})"


_TEMPLATES: dict[str, Callable[..., str]] = {
    "substring": _substring,
    "split_part": lambda text, separator, index: f"string_split({text}, {_quoted(separator)})[{index}]",
    "like": lambda text, pattern: f"({text} LIKE {_quoted(pattern)})",
    "regexp_extract": _extract,
    "count_char": _count,
    "trim": lambda text, characters=" ": f"trim({text}, {_quoted(characters)})",
    "ltrim": lambda text, characters=" ": f"ltrim({text}, {_quoted(characters)})",
    "rtrim": lambda text, characters=" ": f"rtrim({text}, {_quoted(characters)})",
    "millisecond": lambda text: f"(millisecond({text}) % 1000)",
    "date": lambda text: f"CAST({text} AS DATE)",
    "truncate": _truncated,
    "strftime": _formatted,
    "epoch_ms": lambda text: f"(epoch_us({text}) - ((epoch_us({text}) % 1000) + 1000) % 1000) // 1000",
    "sign": lambda text: f"CAST(sign({text}) AS BIGINT)",
}
