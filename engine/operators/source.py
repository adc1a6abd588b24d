"""The head of a pipeline as an operator: what readers brought is passed on; `SourceHead` reads."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from penstock.engine.core.contract import MAIN
from penstock.engine.operators.descriptions import Detail, Words, error_details, expression_text
from penstock.engine.operators.descriptor import OperatorDescriptor
from penstock.engine.operators.select import Pass
from penstock.model.durations import format_microseconds
from penstock.model.expressions import Expr
from penstock.model.job_graph import OperatorNode, SourceSpec
from penstock.model.result_columns import is_hidden
from penstock.model.sampling import DRAW_FIELD
from penstock.model.schema import StreamSchema


class SourceDescriptor(OperatorDescriptor[SourceSpec]):
    """Rows come from outside; what is kept are positions."""

    spec = SourceSpec
    verb = "source"
    needs_time = False

    def outputs(self, spec: SourceSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schema of what is read; with strata rows say what their records drew."""
        if spec.strata is None:
            return {MAIN: inputs[0]}
        return {MAIN: replace(inputs[0], fields=inputs[0].fields.append(DRAW_FIELD))}

    def make(self, spec: SourceSpec, inputs: Sequence[StreamSchema], name: str) -> Pass:
        """Return a fresh operator."""
        return Pass()

    def narrowed(self, spec: SourceSpec, columns: Set[str]) -> SourceSpec:
        """Read these columns, or one if only the number of rows matters."""
        names = spec.source.schema.names
        kept = [name for name in names if name in columns]
        return replace(spec, source=spec.source.restrict(kept or names[:1], None))

    def words(self, spec: SourceSpec, node: OperatorNode) -> Words:
        """Say what is read, which columns, and how event time comes about."""
        schema = node.outputs[MAIN]
        details: list[Detail] = [("columns", ", ".join(name for name in schema.fields.names if not is_hidden(name)))]
        predicate = getattr(spec.source, "predicate", None)
        if isinstance(predicate, Expr):
            details.append(("pushed down", expression_text(predicate)))
        if schema.time is not None:
            delay = format_microseconds(spec.watermark_delay_us) if spec.watermark_delay_us else "0s"
            ahead = "" if spec.max_ahead_us is None else f", at most {format_microseconds(spec.max_ahead_us)} ahead"
            details.append(("event time", f"{schema.time.name}, watermark {delay} behind{ahead}"))
        details += error_details(spec.on_error)
        if spec.dead_letters is not None:
            details.append(("dead letters", spec.dead_letters.describe()))
        return Words(f"read {spec.source.describe()}", tuple(details))


SOURCE = SourceDescriptor()
