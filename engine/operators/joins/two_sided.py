"""The base of join descriptors: keys of both sides, the columns they put out, and their words."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from penstock.engine.core.contract import LATE, MAIN
from penstock.engine.operators.descriptions import Detail, expression_text
from penstock.engine.operators.descriptor import (
    Columns,
    KeyExpressions,
    OperatorDescriptor,
    Partitioning,
    PlanContext,
    Wanted,
    columns_used,
    time_column,
)
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, keeps_unmatched
from penstock.engine.operators.state_descriptions import changelog_words, expression_words, key_words
from penstock.model.expressions import Expr, column_name
from penstock.model.join_specs import IntervalJoinSpec, JoinSpec, Output, TwoSided
from penstock.model.result_columns import BUCKET, is_hidden
from penstock.model.schema import StreamSchema
from penstock.state.checkpoints.operator_meaning import OperatorMeaning

T = TypeVar("T", bound=TwoSided)
P = TypeVar("P", JoinSpec, IntervalJoinSpec)


class TwoSidedDescriptor(OperatorDescriptor[T]):
    """A join of two streams; what is kept are rows of both sides that may still meet."""

    partitioning = Partitioning.BY_SIDES

    output: Callable[[T, StreamSchema, StreamSchema, str], StreamSchema]
    """Returns the schema of joined rows; a static method."""

    def outputs(self, spec: T, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schemas of joined rows and of the late ones of either side."""
        left, right = inputs
        return {MAIN: self.output(spec, left, right, name), LATE: left, LATE_RIGHT: right}

    def needed(self, spec: T, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return keys, event times, and what is put out of each side; late rows are whole rows."""
        return [
            frozenset(schema.fields.names)
            if late in wanted
            else columns_used(keys) | columns_of_side(spec.output, side, wanted) | self.read_beside(spec, side, schema)
            for side, (keys, late, schema) in enumerate(
                zip((spec.left_keys, spec.right_keys), (LATE, LATE_RIGHT), inputs, strict=True)
            )
        ]

    def read_beside(self, spec: T, side: int, schema: StreamSchema) -> Set[str]:
        """Return what is read of a side besides keys and what is put out: its event time."""
        return time_column(schema)

    def narrowed(self, spec: T, columns: Set[str]) -> T:
        """Put out these columns, or one if only the number of rows matters."""
        return replace(spec, output=narrowed_output(spec.output, columns))

    def keys(self, spec: T, port: int) -> KeyExpressions:
        """Return the keys of a side."""
        return spec.right_keys if port else spec.left_keys

    def partitioned_by(self, spec: T, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return the columns that show the left keys, if every row has them."""
        if 1 in self.unmatched(spec):
            return None
        return _shown(spec, 0)

    def key_columns(self, spec: T) -> Sequence[Columns]:
        """Return the columns that show the keys of the left, and those that show the keys of the right."""
        return [columns for side in (0, 1) if (columns := _shown(spec, side)) is not None]

    def unmatched(self, spec: T) -> Set[int]:
        """Return the sides that ``how`` keeps."""
        return frozenset(side for side in (0, 1) if keeps_unmatched(spec.how, side))

    def meaning(self, spec: T, context: PlanContext) -> OperatorMeaning:
        """Return which rows of both sides meet."""
        left, right = context.inputs
        traits = {
            "left key": key_words(spec.left_keys),
            "right key": key_words(spec.right_keys),
            "left input": changelog_words(left),
            "right input": changelog_words(right),
            "how": spec.how,
        }
        keys = tuple(column_name(key) or expression_words(key) for key in spec.left_keys)
        return OperatorMeaning(kind=self.verb, traits=traits | self.traits(spec), keys=keys, sides=context.sources)

    def traits(self, spec: T) -> dict[str, str]:
        """Return what else decides which rows meet."""
        return {}


class SampledDescriptor(TwoSidedDescriptor[P]):
    """A join in front of which rows may be dropped by their keys."""

    def with_sampler(self, spec: P, port: int, number: int) -> P:
        """Return the spec with the number at this side."""
        left, right = spec.samplers
        return replace(spec, samplers=(left, number) if port else (number, right))

    def sampler(self, spec: P, port: int) -> int | None:
        """Return the number of this side."""
        return spec.samplers[port]

    def with_buckets(self, spec: P) -> P | None:
        """Return the spec whose pairs have the buckets of their keys."""
        if not any(self.samples_keys(spec, port) for port in (0, 1)):
            return None
        return replace(spec, output=(*spec.output, (BUCKET, -1, BUCKET)))


def _shown(spec: TwoSided, side: int) -> Columns | None:
    """Return the columns that show the keys of a side."""
    shown = {column: name for name, of, column in spec.output if of == side}
    names = [shown.get(column_name(key) or "") for key in (spec.right_keys if side else spec.left_keys)]
    columns = tuple(name for name in names if name is not None)
    return columns if len(columns) == len(names) else None


def columns_of_side(output: Output, side: int, wanted: Wanted) -> Set[str]:
    """Return the columns of a side that are put out and wanted."""
    names = wanted.get(MAIN, frozenset())
    return frozenset(column for name, origin, column in output if origin == side and name in names)


def narrowed_output(output: Output, columns: Set[str]) -> Output:
    """Return those of the output's columns, or one if there are none."""
    return tuple(item for item in output if item[0] in columns) or output[:1]


def join_headline(noun: str, how: str, left_keys: Sequence[Expr], right_keys: Sequence[Expr]) -> str:
    """Say how rows are joined, on which keys."""
    sides = (map(expression_text, keys) for keys in (left_keys, right_keys))
    keys = ", ".join(left if left == right else f"{left} = {right}" for left, right in zip(*sides, strict=True))
    return f"{'' if how == 'inner' else f'{how} '}{noun} on {keys}"


def output_detail(output: Output) -> Detail:
    """Say which columns are put out."""
    return "columns", ", ".join(name for name, _, _ in output if not is_hidden(name))
