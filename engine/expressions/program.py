"""A compiled expression: steps over slots, equal subexpressions once, constants folded (docs/design/expressions.md 3).

`expressions.compiler` makes one per operator. A step knows the kernel, the slots of its arguments and its own slot;
running is one Python call per step and batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from penstock.engine.expressions import cases as cases
from penstock.engine.expressions import kernels as kernels
from penstock.engine.expressions.folding import fold
from penstock.engine.expressions.text import Parts, split_part, split_text
from penstock.engine.expressions.text_encoder import TextEncoder
from penstock.engine.expressions.values import Encoded, Kernel, RowError, bits, booleans, plain
from penstock.model.errors import BadRecordError, NumericOverflowError
from penstock.model.expression_trees import place_of, sql_text
from penstock.model.typed_expressions import TypedExpression

_FAILURES = (pa.ArrowInvalid, RowError)


@dataclass(slots=True)
class Step:
    """Compute slot ``slot`` from the slots ``arguments``; ``raw``: the kernel takes `Encoded` text as it is."""

    kernel: Kernel
    arguments: tuple[int, ...]
    slot: int
    source: TypedExpression
    raw: bool = False


class Program:
    """Computes outputs from columns, for the rows that pass ``where`` if there is one."""

    def __init__(self, outputs: Sequence[TypedExpression], operator: str, where: TypedExpression | None = None) -> None:
        """Compile; errors of rows will name ``operator``."""
        self._operator = operator
        self._slots_by_key: dict[Any, int] = {}
        # An expression used in several places is asked for once, or nesting would double the work at every level.
        self._slots_by_typed: dict[TypedExpression, int] = {}
        self._template: list[Any] = []
        self._columns: dict[int, int] = {}
        self._most_parts: dict[int, int] = {}
        self._types = [output.type for output in outputs]
        self._filter_steps: list[Step] = []
        self._steps: list[Step] = []
        self._where = -1
        if where is not None:
            self._where = self._add(fold(where))
            self._filter_steps, self._steps = self._steps, []
        done = {step.slot for step in self._filter_steps}
        self._outputs = [self._add(fold(output)) for output in outputs]
        used = {slot for step in self._steps for slot in step.arguments} | set(self._outputs)
        self._carried = used & (done | set(self._columns.values()))

    @property
    def columns(self) -> list[int]:
        """The columns of the schema that the program reads, by index."""
        return list(self._columns)

    def run(self, columns: Sequence[Any], rows: int) -> list[pa.Array]:
        """Compute the outputs from the values of `columns`, in that order.

        Raises:
            NumericOverflowError: a number left the range of its type in some row.
            BadRecordError: some row has no result for another reason.
        """
        if not rows:
            return self._empty()
        slots = self._start(columns)
        step = None
        try:
            for step in self._filter_steps:
                slots[step.slot] = _compute(step, slots)
            if self._where >= 0:
                rows = self._keep_passing(slots, rows)
                if not rows:
                    return self._empty()
            for step in self._steps:
                slots[step.slot] = _compute(step, slots)
        except _FAILURES as error:
            self._complain(step, error)
        return self._finish(slots, rows)

    def run_branch(self, columns: Sequence[Any], rows: int) -> pa.Array:
        """Compute the only output inside another program; raises what kernels raise."""
        slots = self._start(columns)
        for step in self._steps:
            slots[step.slot] = _compute(step, slots)
        return self._finish(slots, rows)[0]

    def _start(self, columns: Sequence[Any]) -> list[Any]:
        slots = self._template.copy()
        for slot, value in zip(self._columns.values(), columns, strict=True):
            slots[slot] = value
        return slots

    def _finish(self, slots: list[Any], rows: int) -> list[pa.Array]:
        values = [plain(slots[slot]) for slot in self._outputs]
        return [pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value for value in values]

    def _empty(self) -> list[pa.Array]:
        return [pa.array([], kind) for kind in self._types]

    def _keep_passing(self, slots: list[Any], rows: int) -> int:
        """Keep the rows that pass in the slots that are still needed; return how many these are."""
        condition = plain(slots[self._where])
        if isinstance(condition, pa.Scalar):
            return rows if condition.as_py() else 0
        kept = bits(condition)
        passing = int(np.count_nonzero(kept))
        if 0 < passing < rows:
            # Few rows are taken faster by index; and a mask that cannot be null filters twice as fast as one that can.
            few = 2 * passing < rows
            chosen = pa.array(np.flatnonzero(kept)) if few else booleans(kept, None)
            for slot in self._carried:
                value = slots[slot]
                if value is not None:
                    slots[slot] = value.take(chosen) if few else value.filter(chosen)
        return passing

    def _complain(self, step: Step | None, error: Exception) -> NoReturn:
        if step is None:
            raise error
        reason = str(error).split("\n")[0].rstrip(".")
        node = step.source.node
        kind = NumericOverflowError if reason == "overflow" else BadRecordError
        raise kind(
            f"Operator {self._operator!r} at {place_of(node)} cannot compute {sql_text(node)}: {reason}."
        ) from error

    def _add(self, typed: TypedExpression) -> int:
        """Return the slot of an expression, adding what is not there yet."""
        if typed not in self._slots_by_typed:
            self._slots_by_typed[typed] = self._add_new(typed)
        return self._slots_by_typed[typed]

    def _add_new(self, typed: TypedExpression) -> int:
        if typed.op == "literal":
            return self._slot(_constant_key(typed.value), typed.value)[0]
        if typed.op == "column":
            return self._add_column(typed.value)
        if typed.op == "case":
            return self._add_case(typed)
        arguments = tuple(self._add(argument) for argument in typed.args)
        if typed.op == "split_part":
            return self._add_split(typed, arguments[0])
        over_text = kernels.over_text(typed)
        if over_text and kernels.is_costly(typed):
            arguments = (self._add_encoder(typed, arguments[0]),)
        options = [_constant_key(value) for value in typed.value] if typed.op == "in" else typed.value
        slot, new = self._slot((typed.op, str(typed.type), repr(options), arguments))
        if new:
            kernel = kernels.build(typed)
            if over_text:
                self._steps.append(Step(_per_text(kernel), arguments[:1], slot, typed, raw=True))
            else:
                raw = typed.op == "is_null"
                self._steps.append(Step(kernel, arguments, slot, typed, raw))
        return slot

    def _slot(self, key: Any, value: Any = None) -> tuple[int, bool]:
        """Return the slot of a key, and whether it is new."""
        if key in self._slots_by_key:
            return self._slots_by_key[key], False
        slot = self._slots_by_key[key] = len(self._template)
        self._template.append(value)
        return slot, True

    def _add_column(self, index: int) -> int:
        slot, _ = self._slot(("column", index))
        self._columns.setdefault(index, slot)
        return slot

    def _add_case(self, typed: TypedExpression) -> int:
        """Branches that may fail are programs of their own, which read columns, unless all rows need them anyway."""
        conditions = tuple(self._add(argument) for argument in typed.args[:-1:2])
        values: list[int] = []
        branches: list[cases.LazyBranch | None] = []
        extra: list[int] = []
        ranges: list[range] = []
        for value in (*typed.args[1:-1:2], typed.args[-1]):
            first = len(extra)
            if kernels.may_fail(value) and value not in self._slots_by_typed:
                program = Program([value], self._operator)
                extra += [self._add_column(index) for index in program.columns]
                branches.append(cases.LazyBranch(program.run_branch))
                values.append(conditions[0])
            else:
                branches.append(None)
                values.append(self._add(value))
            ranges.append(range(first, len(extra)))
        arguments = (*conditions, *values, *extra)
        # Cases with branches of their own are told apart by their text.
        text = sql_text(typed.node) if any(branches) else ""
        slot, new = self._slot(("case", str(typed.type), arguments, text))
        if new:
            kernel = cases.case_kernel(typed, branches, ranges)
            self._steps.append(Step(kernel, arguments, slot, typed, raw=True))
        return slot

    def _add_split(self, typed: TypedExpression, text: int) -> int:
        """The parts of one text are looked for once, up to the last one that any step wants."""
        separator, index = typed.value
        split_slot, new = self._slot(("split", text, separator))
        self._most_parts[split_slot] = max(self._most_parts.get(split_slot, 0), index)
        if new:

            def find(value: Any) -> Parts | None:
                if type(value) is Encoded:
                    return None
                return split_text(value, separator, self._most_parts[split_slot])

            self._steps.append(Step(find, (text,), split_slot, typed, raw=True))
        slot, new = self._slot(("split_part", text, separator, index))
        if new:
            size = len(separator.encode())
            alone = split_part(typed)

            def take(value: Any, parts: Parts | None) -> Any:
                return value.map(alone) if parts is None else parts.part(value, index, size)

            self._steps.append(Step(take, (text, split_slot), slot, typed, raw=True))
        return slot

    def _add_encoder(self, typed: TypedExpression, text: int) -> int:
        slot, new = self._slot(("encode", text))
        if new:
            self._steps.append(Step(TextEncoder().encode, (text,), slot, typed, raw=True))
        return slot


def _constant_key(value: pa.Scalar) -> tuple[Any, ...]:
    return ("literal", str(value.type), value.is_valid, str(value))


def _compute(step: Step, slots: list[Any]) -> Any:
    if step.raw:
        return step.kernel(*[slots[slot] for slot in step.arguments])
    return step.kernel(*[plain(slots[slot]) for slot in step.arguments])


def _per_text(kernel: Kernel) -> Kernel:
    """Run a function of one text per distinct text where that is how it comes."""
    return lambda text: text.map(kernel) if type(text) is Encoded else kernel(text)
