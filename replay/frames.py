"""Frames that operators of a replay hand to each other, and refusals of what a batch cannot answer.

The compiler makes a `Frame` of every output of every operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.model.errors import UserError
from penstock.model.job_graph import OperatorNode
from penstock.model.max_error import CONFIDENCE
from penstock.model.schema import StreamSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.replay.checkpoint_progress import CheckpointProgress


class ReplayError(UserError):
    """A pipeline, or a part of it, has no counterpart in a batch; the message names the operator and says why."""


RAISED = "penstock.replay.frames.ReplayError: "
"""How an error of a query of Spark's begins that is a `ReplayError`; it ends with its line."""


def refused(node: OperatorNode, why: str) -> ReplayError:
    """Return the error of an operator that has no counterpart in a batch."""
    where = f" (at {node.where})" if node.where else ""
    return ReplayError(f"operator {node.name!r} cannot be replayed: {why}{where}")


@dataclass(frozen=True)
class Frame:
    """The rows of one output of an operator, all of them.

    ``rows`` has the columns of ``schema.fields``, then those of ``hidden`` (see `sample_columns`), in that order, and
    none else. Of a changelog they are the rows that stand at the end, without weights.
    """

    rows: DataFrame
    schema: StreamSchema
    hidden: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def fields(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.schema.fields, *self.hidden])


@dataclass(frozen=True)
class ReplayContext:
    """Context of operators besides their inputs."""

    session: SparkSession
    progress: CheckpointProgress | None = None
    """How far the stream had come that is replayed; None: to its end."""
    estimates: bool = False
    """Whether aggregates estimate all rows from the kept ones, which are all there are; else rows that were shed are
    there, too, and aggregates are exact."""
    confidence: float = CONFIDENCE
    """Of the intervals of such estimates."""


Rows = Mapping[str, "DataFrame"]
"""What an operator puts out, by output; an output that is missing has no rows."""
