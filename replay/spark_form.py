"""The form of one kind of operator for Spark, found by `operators.registry`.

The compiler, the comparison and its report ask forms. The engine's descriptors know nothing of Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.model.job_graph import OperatorNode, OperatorSpec
from penstock.model.schema import StreamSchema
from penstock.replay.frames import Frame, ReplayContext, Rows, refused
from penstock.replay.inexact import InexactColumns, inexact

S = TypeVar("S", bound=OperatorSpec)


class SparkForm(ABC, Generic[S]):
    """The batch computation of one kind of operator, and properties of the rows that come out."""

    spec: type[S]
    carries: bool = False
    """Whether it takes hidden columns of its inputs; from others they are taken away."""

    @abstractmethod
    def compile(self, spec: S, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Return the rows of every output, given all rows of the inputs.

        Raises:
            ReplayError: what the stream has put out so far cannot be told.
        """

    def hidden(self, spec: S, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return the hidden columns of the rows that come out, which stand behind the others."""
        return pa.schema([])

    def refuse(self, spec: S, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        return None

    def row_keys(self, spec: S, node: OperatorNode) -> tuple[str, ...]:
        """Return the columns that say what a row of the result is about; () if nothing in the spec says so."""
        return ()

    def passed(self, spec: S, names: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return what a sink calls the columns of the one input, given what it calls those of the result.

        None: rows of the result are others than those of the input.
        """
        return None

    def inexact(self, spec: S, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return which columns of the result a stream approximates, given those of the inputs.

        Raises:
            ReplayError: the operator works with one of them.
        """
        if approximate:
            raise inexact(node, *next(iter(approximate.items())))
        return {}


class NoForm(SparkForm[S]):
    """An operator that no batch can compute, and why, as the end of a sentence: ``cannot be replayed: ...``."""

    def __init__(self, spec: type[S], why: str) -> None:
        """Refuse operators of this spec."""
        self.spec = spec
        self.why = why

    def refuse(self, spec: S, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str:
        """Say why."""
        return self.why

    def compile(self, spec: S, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Refuse.

        Raises:
            ReplayError: always.
        """
        raise refused(node, self.why)
