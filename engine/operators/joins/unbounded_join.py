"""The base of joins for ever, for which no watermark matters."""

from penstock.engine.core.contract import Operator
from penstock.engine.operators.joins.join_schema import join_output
from penstock.engine.operators.joins.join_side import JoinSide, join_sides
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema


class UnboundedJoin(Operator):
    """Joins rows with equal keys, for ever."""

    minds_watermarks = False

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output`.
        """
        self._output = join_output(spec, left, right, name)
        self._sides = join_sides(spec, left, right, name, JoinSide)

    def due_us(self) -> int | None:
        """Return None: pairs wait for no watermark."""
        return None
