"""The contract of operator descriptors: one beside every operator, found by `registry`.

Schemas, column pruning, the planner, checkpoints and ``explain`` ask descriptors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.core.contract import Operator
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.state_descriptions import key_names, key_traits
from penstock.model.expressions import Expr, column_name, columns_of
from penstock.model.job_graph import KeyedSpec, OperatorNode, OperatorSpec
from penstock.model.schema import StreamSchema
from penstock.state.checkpoints.operator_meaning import OperatorMeaning

S = TypeVar("S", bound=OperatorSpec)
K = TypeVar("K", bound=KeyedSpec)

Columns = tuple[str, ...]
KeyExpressions = tuple[Expr, ...]

Wanted = Mapping[str, Set[str]]
"""The columns that an operator's outputs must bring, by output; one that nothing reads is missing."""


class Partitioning(Enum):
    """The rows of an operator's inputs that must come to the same instance.

    ``BY_SOME_KEYS``: all rows of a key, but where the input is partitioned by some of the keys already, state may lie
    by these alone (`OperatorContext.placed_by`). ``BY_SIDES``: two inputs, each by its own keys, of which one may be
    broadcast instead.
    """

    ANYWHERE = "anywhere"
    BY_KEY = "by key"
    BY_SOME_KEYS = "by some keys"
    BY_SIDES = "by the keys of each side"


class Sampling(Enum):
    """What becomes of rows that are a sample of all rows, in an operator.

    ``CARRIED``: each row of the result is one of the input's, and carries on what is hidden in it. ``PASSED``: each is
    made of one row of the input. ``SPREAD``: several may be made of one. ``ESTIMATED``: what the result says of the
    sample it says of all rows, or marks as biased. ``ALL_ROWS``: a sample in makes a result that stands for nothing.
    """

    CARRIED = "carried"
    PASSED = "passed"
    SPREAD = "spread"
    ESTIMATED = "estimated"
    ALL_ROWS = "all rows"


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The context of an operator in a plan.

    Input by input: the ``inputs``' schemas, the keys by which rows are ``placed``, and the names of the ``sources``
    upstream.
    """

    name: str
    inputs: tuple[StreamSchema, ...]
    placed: tuple[KeyExpressions, ...]
    sources: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The layout of an operator's aggregates: by table, and the types of the values of its frames, in order."""

    tables: Mapping[str, Aggregation] = field(default_factory=dict)
    values: tuple[pa.DataType, ...] = ()


class OperatorDescriptor(ABC, Generic[S]):
    """The engine's view of one kind of operator; all answers are pure functions of the spec.

    Subclasses name the ``spec`` that they describe and the ``verb`` by which users know it, and override what differs
    from a stateful operator that goes wherever its input is.
    """

    spec: type[S]
    verb: str

    operator: Callable[..., Operator]
    """Makes the operator of the spec, the schema of each input, and the name; unset where `make` is overridden."""

    partitioning: Partitioning = Partitioning.ANYWHERE

    stateful: bool = True
    """Whether a checkpoint keeps something of it, which must be found again by its name."""

    needs_time: bool = True
    """Whether it needs watermarks row by row, so that event time is read though no expression uses it."""

    has_dead_letters: bool = True
    """Whether there are rows that it cannot process."""

    folded_may_fail: bool = False
    """Whether rows that it has folded wait for an answer, or for their time, and may be bad yet."""

    estimates: bool = False
    """Whether its results say how good they are where a query under contract wants that (`with_hidden`)."""

    like_inputs: bool = False
    """Whether its inputs have the columns of its result, all of them the same."""

    like_outputs: bool = False
    """Whether all of its outputs have the same columns."""

    @property
    def keyed(self) -> bool:
        """True if it has state that lies by the keys of its rows."""
        return self.partitioning is not Partitioning.ANYWHERE

    @abstractmethod
    def outputs(self, spec: S, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schema of every output but dead letters; a source's one input is what it reads.

        Raises:
            PlanError: the spec does not fit its inputs; the message names the operator ``name``.
        """

    def make(self, spec: S, inputs: Sequence[StreamSchema], name: str) -> Operator:
        """Return a fresh operator; what can be checked before rows flow is checked here.

        Raises:
            PlanError: the spec does not fit its inputs.
        """
        return self.operator(spec, *inputs, name)

    @abstractmethod
    def words(self, spec: S, node: OperatorNode) -> Words:
        """Return what `explain` says of an operator."""

    def needed(self, spec: S, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return, input by input, the columns it needs to bring what is wanted; all of them unless it knows better.

        Functions of the user's may look at any column, and ties are decided by all columns of a row.
        """
        return [frozenset(schema.fields.names) for schema in inputs]

    def narrowed(self, spec: S, columns: Set[str]) -> S:
        """Return the spec without what is computed only for columns that are not among these."""
        return spec

    def keys(self, spec: S, port: int) -> KeyExpressions | None:
        """Return the keys whose rows must come together at an input: none (all rows), or None: any rows do."""
        return None

    def partitioned_by(self, spec: S, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return the columns of the result by which a keyed operator's rows lie, given the keys that place its inputs.

        None: no columns show these keys.
        """
        return None

    def carried(self, spec: S, columns: Columns) -> Columns | None:
        """Return the result's names of the columns by which the one input is partitioned; None: one of them is lost."""
        return None

    def with_confidence(self, spec: S, confidence: float) -> S:
        """Return the spec whose intervals are at this confidence, in (0, 1), of an operator that `estimates`."""
        return spec

    def without_interval(self, spec: S) -> Sequence[tuple[str, str]]:
        """Return what of an operator that `estimates` has no interval: names, and what they are."""
        return ()

    def has_interval(self, spec: S) -> bool:
        """Return whether a result of an operator that `estimates` has an interval."""
        return False

    def with_hidden(self, spec: S, names: Columns) -> S | None:
        """Return the spec that carries hidden columns of these names from its input to its result.

        None: its rows are made anew, without them.
        """
        return None

    def decides_by(self, spec: S, names: Columns) -> Set[str]:
        """Return the columns, of its input's ``names``, by which it decides whether or where a row goes on."""
        return frozenset()

    def sampling(self, spec: S) -> Sampling:
        """Return what becomes of a sample in it; it needs all rows unless it knows better."""
        return Sampling.ALL_ROWS

    def samples_keys(self, spec: S, port: int) -> bool:
        """Return whether rows of an input may be dropped by its keys: what it makes of the others is exact."""
        return False

    def with_sampler(self, spec: S, port: int, number: int) -> S:
        """Return the spec that drops rows of an input at the rate of the sampler of this number, if `samples_keys`."""
        return spec

    def sampler(self, spec: S, port: int) -> int | None:
        """Return the number of the sampler by whose rate it drops rows of an input; None: it drops none."""
        return None

    def with_buckets(self, spec: S) -> S | None:
        """Return the spec whose rows say by `BUCKET` which of them are of one key, if it passes samples of keys on.

        None: it does not, or its rows say so where they say how good they are.
        """
        return None

    def key_columns(self, spec: S) -> Sequence[Columns]:
        """Return the columns of the result that show the keys of a keyed operator, in every way that there is."""
        columns = self.partitioned_by(spec, [self.keys(spec, 0) or ()])
        return () if columns is None else (columns,)

    def unmatched(self, spec: S) -> Set[int]:
        """Return the sides of a join whose rows come out even without a partner."""
        return frozenset()

    def meaning(self, spec: S, context: PlanContext) -> OperatorMeaning:
        """Return what a stateful operator's state stands for, in the words of the pipeline.

        Nothing depends on parallelism, or on what functions of the user's do.
        """
        return OperatorMeaning(kind=self.verb)

    def state_layout(self, spec: S, meaning: OperatorMeaning, schema: StreamSchema, name: str) -> StateLayout:
        """Return how an operator of this ``meaning`` keeps aggregates of rows of its first input's ``schema``."""
        return StateLayout()

    def depends_on(self, spec: S) -> str | None:
        """Return why two runs may differ in its result, as a clause (``takes rows as they come``); None: never."""
        return None


class KeyedDescriptor(OperatorDescriptor[K]):
    """An operator of one input with state per key, whose spec is a `KeyedSpec`."""

    partitioning = Partitioning.BY_KEY

    def keys(self, spec: K, port: int) -> KeyExpressions:
        """Return the expressions of the keys."""
        return tuple(expression for _, expression in spec.keys)

    def partitioned_by(self, spec: K, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return the keys, if they are columns of the input, which the result has too."""
        return plain_columns(self.keys(spec, 0))

    def meaning(self, spec: K, context: PlanContext) -> OperatorMeaning:
        """Return by which keys state lies, and the operator's own traits."""
        return self.keyed_meaning(spec, context)

    def keyed_meaning(self, spec: K, context: PlanContext, **kept: Any) -> OperatorMeaning:
        """Return `meaning` with what else is ``kept``, by the fields of `OperatorMeaning`."""
        traits = key_traits(spec.keys, context.inputs[0]) | self.traits(spec, context)
        return OperatorMeaning(kind=self.verb, traits=traits, keys=key_names(spec.keys), **kept)

    def traits(self, spec: K, context: PlanContext) -> dict[str, str]:
        """Return what must stay for the state to be of use, besides keys."""
        return {}


def plain_columns(keys: Sequence[Expr]) -> Columns | None:
    """Return the names of keys that are columns, None if one is computed or there are none."""
    names = [column_name(key) for key in keys]
    columns = tuple(name for name in names if name is not None)
    return columns if columns and len(columns) == len(names) else None


def columns_used(expressions: Iterable[Expr]) -> frozenset[str]:
    """Return the columns that any of these expressions reads."""
    return frozenset[str]().union(*map(columns_of, expressions))


def time_column(schema: StreamSchema) -> frozenset[str]:
    """Return the event time column, if there is one."""
    return frozenset() if schema.time is None else frozenset([schema.time.name])


def key_places(keys: KeyExpressions, placed: KeyExpressions) -> tuple[int, ...]:
    """Return which of an operator's keys these are, by their places."""
    # Comparing expressions makes an expression.
    return tuple(place for item in placed for place, key in enumerate(keys) if key is item)
