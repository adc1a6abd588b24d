"""Typing of calls of named functions against the table in `functions`, for `expression_types`."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from penstock.model.coercion import CombinationError, is_number
from penstock.model.functions import FUNCTIONS, VARIADIC, Function, Option
from penstock.model.schema import normal_type
from penstock.model.typed_expressions import Complaints, TypedExpression, convert, describe, null

_SUBJECTS: dict[str, tuple[Callable[[pa.DataType], bool], str, pa.DataType]] = {
    "text": (pt.is_string, "text", pa.string()),
    "number": (is_number, "a number", pa.int64()),
    "time": (
        lambda kind: bool(pt.is_timestamp(kind) or pt.is_date32(kind)),
        "a date or timestamp",
        pa.timestamp("us"),
    ),
}


def resolve_call(complaints: Complaints, node: exp.Expr, values: Sequence[TypedExpression]) -> TypedExpression:
    """Type a call (an `exp.Anonymous`) whose arguments are typed already.

    Raises:
        ExpressionError: no such function, or arguments that do not fit.
    """
    name = str(node.name).lower()
    if name in VARIADIC:
        return _variadic(complaints, name, node, values)
    if name not in FUNCTIONS:
        complaints.unknown(node, "function", name, [*FUNCTIONS, *VARIADIC])
    function = FUNCTIONS[name]
    if not values:
        complaints.fail(node, f"calls {name} without a value")
    subject = values[0]
    accepts, expected, example = _SUBJECTS[function.subject]
    options = _options(complaints, name, function, node, values[1:])
    if pt.is_null(subject.type):
        return null(function.result(example, options), node)
    if not accepts(subject.type):
        complaints.fail(node, f"cannot take {name} of {describe(subject)}: it needs {expected}")
    try:
        kind = function.result(subject.type, options)
    except CombinationError as error:
        complaints.fail(node, f"cannot take {name} of {describe(subject)}: {error}")
    if function.subject == "number" and not pt.is_decimal(subject.type):
        wide = pt.is_floating(kind) or pt.is_floating(subject.type)
        subject = convert(subject, pa.float64() if wide else pa.int64())
    elif pt.is_floating(kind):
        subject = convert(subject, kind)
    elif name == "truncate" or name == "strftime":
        subject = subject if pt.is_timestamp(subject.type) else convert(subject, pa.timestamp("us"))
    return TypedExpression(name, kind, (subject,), node, options)


def _options(
    complaints: Complaints, name: str, function: Function, node: exp.Expr, arguments: Sequence[TypedExpression]
) -> tuple[Any, ...]:
    least, most = sum(option.required for option in function.options), len(function.options)
    if not least <= len(arguments) <= most:
        expected = str(most) if least == most else f"{least} to {most}"
        complaints.fail(node, f"calls {name} with {len(arguments)} options, and it takes {expected}")
    values = [
        _option(complaints, name, option, typed) for option, typed in zip(function.options, arguments, strict=False)
    ]
    values += [option.default for option in function.options[len(arguments) :]]
    problem = function.check_all(tuple(values))
    if problem:
        complaints.fail(node, f"cannot call {name}: {problem}")
    return tuple(values)


def _option(complaints: Complaints, name: str, option: Option, typed: TypedExpression) -> Any:
    constant = typed.value.as_py() if typed.op == "literal" else None
    if type(constant) is not option.kind:
        expected = "constant text" if option.kind is str else "a constant whole number"
        complaints.fail(typed.node, f"calls {name} with {describe(typed)} as {option.name}, which must be {expected}")
    problem = option.check(constant)
    if problem:
        complaints.fail(typed.node, f"cannot call {name}: {option.name} {problem}")
    return constant


def _variadic(complaints: Complaints, name: str, node: exp.Expr, values: Sequence[TypedExpression]) -> TypedExpression:
    if name == "struct_extract":
        return _field(complaints, node, values)
    if not values or (name == "power" and len(values) != 2):
        complaints.fail(node, f"calls {name} with {len(values)} values")
    if name == "hash":
        for value in values:
            if pt.is_nested(value.type):
                complaints.fail(node, f"cannot hash {describe(value)}: hash its fields")
        return TypedExpression(name, pa.int64(), tuple(values), node)
    accepts, expected, _ = _SUBJECTS["text" if name == "concat" else "number"]
    kind = pa.string() if name == "concat" else pa.float64()
    for value in values:
        if not (accepts(value.type) or pt.is_null(value.type)):
            complaints.fail(node, f"cannot take {name} of {describe(value)}: it needs {expected}")
    return TypedExpression(name, kind, tuple(convert(value, kind) for value in values), node)


def _field(complaints: Complaints, node: exp.Expr, values: Sequence[TypedExpression]) -> TypedExpression:
    if len(values) != 2 or values[1].op != "literal" or values[1].type != pa.string():
        complaints.fail(node, "takes a field of a struct without naming it")
    struct, name = values[0], values[1].value.as_py()
    if not pt.is_struct(struct.type):
        complaints.fail(node, f"takes field {name!r} of {describe(struct)}, which is no struct")
    index = struct.type.get_field_index(name)
    if index < 0:
        names = [struct.type.field(i).name for i in range(struct.type.num_fields)]
        complaints.unknown(node, "field", name, names)
    return TypedExpression("struct_extract", normal_type(struct.type.field(index).type), (struct,), node, index)
