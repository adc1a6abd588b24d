"""Constant folding and the order of cases, before an expression is compiled.

A subexpression of constants becomes a constant; one that fails stays a failure of every row that needs it. A case whose
later condition may fail becomes a case in the default of the earlier ones, so that it is not asked too early.
"""

from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.kernels import build, may_fail
from penstock.engine.expressions.values import RowError
from penstock.model.typed_expressions import TypedExpression, literal, null

_FEW_TEXTS = 8
# Operations that can have a value although an argument is null.
_NULL_TOLERANT = ("and", "or", "is_null", "coalesce", "case", "hash")


def fold(typed: TypedExpression, done: dict[TypedExpression, TypedExpression] | None = None) -> TypedExpression:
    """Return an equivalent expression with constants folded and cases in order.

    What is used in several places is one object there before and after; ``done`` holds what is folded already.
    """
    if not typed.args:
        return typed
    done = {} if done is None else done
    if typed not in done:
        arguments = tuple(fold(argument, done) for argument in typed.args)
        done[typed] = _folded(replace(typed, args=arguments))
    return done[typed]


def _folded(typed: TypedExpression) -> TypedExpression:
    """Fold a step whose arguments are folded."""
    if typed.op == "case":
        return _case(typed)
    if typed.op == "coalesce":
        return _coalesce(typed)
    if typed.op == "in" and pt.is_string(typed.args[0].type) and len(typed.value) <= _FEW_TEXTS:
        return fold(_alternatives(typed))
    constants = [argument for argument in typed.args if argument.op == "literal"]
    if typed.op not in _NULL_TOLERANT and any(not item.value.is_valid for item in constants):
        return null(typed.type, typed.node)
    if len(constants) < len(typed.args) or typed.op == "hash":
        return typed
    return _evaluated(typed)


def _alternatives(typed: TypedExpression) -> TypedExpression:
    """Text among a few constants as comparisons, which other parts of the expression may share."""
    tests = [
        TypedExpression("eq", pa.bool_(), (typed.args[0], literal(value, typed.node)), typed.node)
        if value.is_valid
        else null(pa.bool_(), typed.node)
        for value in typed.value
    ]
    result = tests[0]
    for test in tests[1:]:
        result = TypedExpression("or", pa.bool_(), (result, test), typed.node)
    return result


def _evaluated(typed: TypedExpression) -> TypedExpression:
    stand_ins = tuple(
        TypedExpression("column", argument.type, (), argument.node, index) for index, argument in enumerate(typed.args)
    )
    kernel = build(replace(typed, args=stand_ins))
    try:
        result = kernel(*[pa.repeat(argument.value, 1) for argument in typed.args])
    except (pa.ArrowInvalid, RowError) as error:
        return TypedExpression("fail", typed.type, (), typed.node, str(error))
    return literal(result[0], typed.node)


def _case(typed: TypedExpression) -> TypedExpression:
    conditions, values = list(typed.args[:-1:2]), list(typed.args[1:-1:2])
    default = typed.args[-1]
    kept: list[TypedExpression] = []
    for index, (condition, value) in enumerate(zip(conditions, values, strict=True)):
        if condition.op == "literal":
            if condition.value.as_py():
                default = value
                break
            continue
        if kept and may_fail(condition):
            rest = (part for pair in zip(conditions[index:], values[index:], strict=True) for part in pair)
            default = _case(replace(typed, args=(*rest, default)))
            break
        kept += [condition, value]
    return replace(typed, args=(*kept, default)) if kept else default


def _coalesce(typed: TypedExpression) -> TypedExpression:
    values: list[TypedExpression] = []
    for value in typed.args:
        constant = value.op == "literal"
        if constant and not value.value.is_valid:
            continue
        values.append(value)
        if constant:
            break
    if not values:
        return null(typed.type, typed.node)
    if len(values) == 1:
        return values[0]
    if not any(may_fail(value) for value in values[1:]):
        return replace(typed, args=tuple(values))
    missing = TypedExpression("is_null", pa.bool_(), (values[0],), typed.node)
    present = TypedExpression("not", pa.bool_(), (missing,), typed.node)
    rest = _coalesce(replace(typed, args=tuple(values[1:])))
    return TypedExpression("case", typed.type, (present, values[0], rest), typed.node)
