"""Schemas of streams: fields, event time, and whether rows form a changelog.

Every operator of the job graph carries the schema of each of its outputs; the DSL checks expressions against it.
"""

import dataclasses
import datetime
import decimal
import difflib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.errors import SchemaError
from penstock.model.result_columns import is_hidden
from penstock.model.source_location import user_location

WEIGHT = "$weight"
"""The int8 column of a changelog: +1 inserts the row, -1 retracts it."""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The event time column: its value plus ``offset_us`` microseconds.

    Window results carry offset -1: a result belongs to the last microsecond of its window.
    """

    name: str
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """Fields (without the weight column), event time (None: none is known) and changelog or append-only.

    No name begins with ``$``, but for those of `result_columns`: operators name the columns they add inside that way.
    """

    fields: pa.Schema
    time: TimeColumn | None = None
    changelog: bool = False

    def __post_init__(self) -> None:
        names = self.fields.names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SchemaError(f"column {repeated[0]!r} appears twice; every column needs its own name")
        reserved = next((name for name in names if name.startswith("$") and not is_hidden(name)), None)
        if reserved is not None:
            raise _reserved(reserved)
        if self.time is not None and self.time.name not in names:
            raise SchemaError(f"event time column {self.time.name!r} is not among {names}")

    @property
    def physical(self) -> pa.Schema:
        """The schema of the record batches themselves: fields, then the weight of a changelog."""
        if not self.changelog:
            return self.fields
        return self.fields.append(pa.field(WEIGHT, pa.int8(), nullable=False))


def _reserved(name: str) -> SchemaError:
    return SchemaError(f"column name {name!r} begins with '$', which is reserved; rename it, or leave it out")


def refuse_hidden(schemas: Iterable[StreamSchema]) -> None:
    """Refuse columns that a user has named like those of `result_columns`.

    Raises:
        SchemaError: naming the first.
    """
    for schema in schemas:
        name = next(filter(is_hidden, schema.fields.names), None)
        if name is not None:
            raise _reserved(name)


def check_names(names: Iterable[str], known: Sequence[str], what: str) -> None:
    """Check that columns exist; ``what`` describes the reference in errors.

    Raises:
        SchemaError: naming the first unknown one, the user's file and line, and close matches.
    """
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(known)}"
            raise SchemaError(f"{what} at {user_location()} names the unknown column {name!r}: {hint}")


Fields: TypeAlias = pa.Schema | Mapping[str, Any] | type[Any]
"""Anything `to_arrow_schema` understands."""


def to_arrow_schema(fields: Fields) -> pa.Schema:
    """Turn a dataclass, a mapping of names to types or a `pyarrow.Schema` into a `pyarrow.Schema`.

    Types are Arrow types, their names (``"int64"``) or Python annotations (``int``, ``datetime | None``).

    Raises:
        SchemaError: a type has no columnar counterpart.
    """
    if isinstance(fields, pa.Schema):
        return pa.schema([normal_field(field) for field in fields])
    if isinstance(fields, Mapping):
        return pa.schema([normal_field(_field(name, kind)) for name, kind in fields.items()])
    if isinstance(fields, type) and dataclasses.is_dataclass(fields):
        return pa.schema([_field(name, kind) for name, kind in _hints(fields).items()])
    if hasattr(fields, "__arrow_c_schema__"):
        return to_arrow_schema(pa.schema(fields))
    raise SchemaError(f"a schema is a dataclass, a mapping of names to types or a pyarrow.Schema, not {fields!r}")


FieldPath: TypeAlias = tuple[str, ...]
"""A field's name behind those of the structs around it; the values of a list have the name ``""``."""


def required_paths(fields: Fields) -> frozenset[FieldPath]:
    """Return the fields that must have a value, also those within structs and lists, of anything with `Fields`.

    Python annotations are required unless they allow None; Arrow fields if they are not nullable. Arrow types and their
    names in a mapping say nothing of nulls, so these fields are not.
    """
    return frozenset(_required(fields))


def _required(fields: Fields) -> Iterator[FieldPath]:
    if isinstance(fields, Mapping):
        kinds = dict(fields)
    elif isinstance(fields, type) and dataclasses.is_dataclass(fields):
        kinds = _hints(fields)
    else:
        schema = fields if isinstance(fields, pa.Schema) else pa.schema(fields)
        for field in schema:
            yield from _required_in_arrow(field, ())
        return
    for name, kind in kinds.items():
        yield from _required_in_hint(kind, (name,))


def _required_in_hint(kind: Any, path: FieldPath) -> Iterator[FieldPath]:
    if type(None) in typing.get_args(kind):
        kind = without_none(kind)
    elif not isinstance(kind, pa.DataType | str):
        yield path
    if isinstance(kind, pa.DataType):
        yield from _below_arrow(kind, path)
    elif typing.get_origin(kind) is list:
        yield from _required_in_hint(typing.get_args(kind)[0], (*path, ""))
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield from ((*path, *below) for below in _required(kind))


def _required_in_arrow(field: pa.Field, path: FieldPath) -> Iterator[FieldPath]:
    if not field.nullable:
        yield (*path, field.name)
    yield from _below_arrow(field.type, (*path, field.name))


def _below_arrow(kind: pa.DataType, path: FieldPath) -> Iterator[FieldPath]:
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _required_in_arrow(kind.field(index), path)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not kind.value_field.nullable:
            yield (*path, "")
        yield from _below_arrow(kind.value_type, (*path, ""))


def normal_field(field: pa.Field) -> pa.Field:
    """Return the field with the one physical type Penstock uses inside for its logical type."""
    return field.with_type(normal_type(field.type)).remove_metadata()


def normal_type(kind: pa.DataType) -> pa.DataType:
    """Map large and view layouts to the plain one and dictionaries to their values, also inside structs and lists."""
    if pa.types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([normal_field(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(normal_field(kind.value_field))
    return kind


_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us", "UTC"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    datetime.timedelta: pa.duration("us"),
    decimal.Decimal: pa.decimal128(38, 9),
}


def to_arrow_type(kind: Any) -> pa.DataType:
    """Turn an Arrow type, its name or a Python annotation into an Arrow type.

    Raises:
        SchemaError: there is no columnar counterpart.
    """
    if isinstance(kind, pa.DataType):
        return normal_type(kind)
    if isinstance(kind, str):
        try:
            return pa.type_for_alias(kind)
        except ValueError:
            raise SchemaError(f"{kind!r} is not the name of an Arrow type such as 'int64' or 'string'") from None
    if kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return pa.struct(list(to_arrow_schema(kind)))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and len(arguments) == 1:
        return pa.list_(to_arrow_type(arguments[0]))
    if origin is typing.Annotated:
        return to_arrow_type(arguments[1] if isinstance(arguments[1], pa.DataType) else arguments[0])
    raise SchemaError(f"type {kind!r} has no columnar counterpart; give a pyarrow type instead")


def _field(name: str, kind: Any) -> pa.Field:
    return pa.field(name, to_arrow_type(without_none(kind)), nullable=True)


def without_none(kind: Any) -> Any:
    """Return an annotation without its ``| None``; any other annotation, also of several types, as it is."""
    inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    return inner[0] if typing.get_origin(kind) in (typing.Union, types.UnionType) and len(inner) == 1 else kind


def _hints(record: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    hints = typing.get_type_hints(record)
    return {item.name: hints[item.name] for item in dataclasses.fields(record)}
